package gateway

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

// openAPI is the document that describes the gateway and its dialects.
//
//go:embed openapi.json
var openAPI []byte

// unversioned is the text in the document that Config.Version replaces.
var unversioned = []byte(`"version": "unversioned"`)

// newDescription returns the document of this build, without white space.
func newDescription(version string) []byte {
	quoted, _ := json.Marshal(version) // does not fail for a string
	text := bytes.Replace(openAPI, unversioned, append([]byte(`"version": `), quoted...), 1)
	var compact bytes.Buffer
	_ = json.Compact(&compact, text) // fails only for text that is not JSON
	return compact.Bytes()
}

func (g *Gateway) describe(w http.ResponseWriter, _ *http.Request) {
	_ = jsonhttp.Send(w, http.StatusOK, g.description)
}
