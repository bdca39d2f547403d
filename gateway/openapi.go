package gateway

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

// openAPI describes all that the gateway and its dialects answer.
//
//go:embed openapi.json
var openAPI []byte

// unversioned stands in the document where Config.Version belongs.
var unversioned = []byte(`"version": "unversioned"`)

// describe is the document of this very build.
func describe(version string) json.RawMessage {
	quoted, _ := json.Marshal(version) // a string always can be
	return bytes.Replace(openAPI, unversioned, append([]byte(`"version": `), quoted...), 1)
}

// description answers GET /v1/openapi.json, which needs no token: it says how
// to send one.
func (g *Gateway) description(w http.ResponseWriter, _ *http.Request) {
	_ = jsonhttp.Answer(w, http.StatusOK, describe(g.cfg.Version))
}
