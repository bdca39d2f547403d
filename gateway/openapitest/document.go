package openapitest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

type contract struct {
	doc    *openapi3.T
	router routers.Router
}

// compile parses the document once per process.
var compile = sync.OnceValues(func() (*contract, error) {
	text, err := readDocument()
	if err != nil {
		return nil, err
	}
	if text, err = closeObjects(text); err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(doc)
	return &contract{doc, router}, err
})

func load(t testing.TB) *contract {
	t.Helper()
	c, err := compile()
	if err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	return c
}

// readDocument searches the document above the working directory. Package gateway
// embeds it, but gateway's tests could not import this package if it imported gateway.
func readDocument() ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "gateway", "openapi.json"))
		if err == nil || !os.IsNotExist(err) {
			return text, err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil, fmt.Errorf("not found above the working directory: %w", err)
		}
		dir = above
	}
}

// closeObjects sets additionalProperties to false for all objects without that keyword.
func closeObjects(text []byte) ([]byte, error) {
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	closeObject(doc)
	return json.Marshal(doc)
}

func closeObject(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			closeObject(item)
		}
	case map[string]any:
		_, fields := node["properties"].(map[string]any)
		_, told := node["additionalProperties"]
		if node["type"] == "object" && fields && !told {
			node["additionalProperties"] = false
		}
		for _, value := range node {
			closeObject(value)
		}
	}
}

// CheckSchema checks JSON against a schema of the document.
func CheckSchema(t testing.TB, name string, text []byte) {
	t.Helper()
	var value any
	err := json.Unmarshal(text, &value)
	if err == nil {
		err = load(t).doc.Components.Schemas[name].Value.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation())
	}
	if err != nil {
		t.Errorf("openapi.json: no %s: %s\n%v", name, text, err)
	}
}
