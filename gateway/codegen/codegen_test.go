package codegen

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	_ "github.com/oapi-codegen/runtime" // which generated clients import
)

// The generator is not among the requirements of a go.mod: its dependencies have other versions
// than those of the product.
const oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

const config = `package: api
generate: {client: true, models: true}
output-options: {skip-prune: true}
`

// A client that oapi-codegen generates compiles, and calls a gateway.
func TestGoClient(t *testing.T) {
	url := startGateway(t)
	dir := t.TempDir()
	description, settings := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "config.yaml")
	generated, overlay := filepath.Join(dir, "api.go"), filepath.Join(dir, "overlay.json")
	saveDescription(t, url, description)
	write(t, settings, []byte(config))
	run(t, dir, "go", "run", oapiCodegen, "-config", settings, "-o", generated, description)

	// The generated package seems to be in this module, whose dependencies it has; vet would look
	// for its directory.
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "api", "api.go"): generated}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, replace)
	t.Setenv("KVSLOTS_URL", url)
	run(t, ".", "go", "test", "-count=1", "-vet=off", "-overlay", overlay, "./testdata/goclient")
}

// offline matches what npm prints if it cannot reach the registry.
var offline = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH`)

// A client of openapi-typescript compiles with strict types, and calls a gateway.
func TestTypeScriptClient(t *testing.T) {
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tsclient")); err != nil {
		t.Fatal(err)
	}
	if out, err := command(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		if offline.Match(out) {
			t.Skipf("npm cannot reach its registry:\n%s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	url := startGateway(t)
	saveDescription(t, url, filepath.Join(dir, "openapi.json"))
	run(t, dir, "npm", "run", "generate")
	run(t, dir, "npm", "run", "build")
	run(t, dir, "npm", "run", "start", "--", url)
}
