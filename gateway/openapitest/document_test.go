package openapitest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestDocument(t *testing.T) {
	text, err := readDocument()
	kvslotstest.Must(t, err)
	if err := validate(t, text); err != nil {
		t.Error(err)
	}
}

// Generators of clients need the type of each constant and enumeration, and the field by which the alternatives
// of a oneOf differ. They make a second operation of each HEAD.
func TestDocumentForGenerators(t *testing.T) {
	text, err := readDocument()
	kvslotstest.Must(t, err)
	var doc any
	kvslotstest.Must(t, json.Unmarshal(text, &doc))
	var check func(node any, at string)
	check = func(node any, at string) {
		switch node := node.(type) {
		case []any:
			for i, item := range node {
				check(item, at+"/"+strconv.Itoa(i))
			}
		case map[string]any:
			_, isConst := node["const"]
			_, isEnum := node["enum"]
			_, isTyped := node["type"]
			_, isOneOf := node["oneOf"]
			_, isTold := node["discriminator"]
			if (isConst || isEnum) && !isTyped || isOneOf && !isTold || node["head"] != nil {
				t.Errorf("%s: %v", at, node)
			}
			for name, value := range node {
				check(value, at+"/"+name)
			}
		}
	}
	check(doc, "#")
}

// validate checks a document against OpenAPI's rules, and its schemas against the
// meta-schema of JSON Schema 2020-12.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return err
	}
	if err := doc.Validate(t.Context()); err != nil {
		return err
	}
	return compileSchemas(t, text)
}

// compileSchemas compiles the schemas of the components and those below "schema".
func compileSchemas(t *testing.T, text []byte) error {
	t.Helper()
	const url = "file:///openapi.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := compiler.AddResource(url, doc); err != nil {
		return err
	}
	for _, pointer := range schemaPointers(doc, "#") {
		if _, err := compiler.Compile(url + pointer); err != nil {
			return err
		}
	}
	return nil
}

func schemaPointers(node any, at string) []string {
	var found []string
	switch node := node.(type) {
	case []any:
		for i, item := range node {
			found = append(found, schemaPointers(item, at+"/"+strconv.Itoa(i))...)
		}
	case map[string]any:
		for name, value := range node {
			below := at + "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
			if name == "schema" || at == "#/components/schemas" {
				found = append(found, below)
			} else {
				found = append(found, schemaPointers(value, below)...)
			}
		}
	}
	return found
}
