package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const (
	module     = "github.com/kvslots/kvslots"
	moduleRoot = "../.."
)

// direction says what the packages at and below a directory may import of this
// module; "/..." stands for what is below, too. The first row that matches a package
// is its own.
var direction = []struct {
	of  string
	may []string
}{
	{"kvslots/clock", nil},
	{"cmd/kvslots/internal/underlease", []string{"kvslots/clock"}},
	{"cmd/kvslots/internal/settings", []string{"gateway", "gateway/dflockdtcp", "gateway/forrst", "gateway/natsapi", "natsembed", "kvslots", "kvslots/subjects", "kvslots/wire"}},
	{"cmd/kvslots/internal/server", []string{"cmd/kvslots/internal/settings", "gateway/...", "natsembed", "kvslots/..."}},
	{"cmd", []string{"cmd/kvslots/internal/...", "gateway/...", "natsembed", "bench", "kvslots/..."}},
	{"bench/compare", []string{"bench", "gateway", "gateway/natsapi", "natsembed", "kvslots", "kvslots/client", "kvslots/client/natsclient", "kvslots/cosmo", "kvslots/natsstore", "kvslots/wire"}},
	{"bench", []string{"kvslots", "kvslots/client", "kvslots/clock", "kvslots/subjects", "kvslots/wire"}},
	{"gateway/internal/gatewaytest", []string{"gateway", "gateway/openapitest", "gateway/internal/ops", "kvslots", "kvslots/kvslotstest", "kvslots/logtest", "kvslots/natsstore", "natsembed"}},
	{"gateway/openapitest", []string{"kvslots/wire", "kvslots/logtest"}},
	{"gateway/internal/ops", []string{"kvslots", "kvslots/clientnet", "kvslots/subjects", "kvslots/wire"}},
	{"gateway/metrics", []string{"gateway/internal/ops", "kvslots"}},
	{"gateway/internal/jsonhttp", []string{"gateway/internal/ops", "kvslots/wire"}},
	{"gateway/natsapi/internal/delivery", []string{"kvslots/wire", "kvslots/subjects"}},
	{"gateway", []string{"kvslots/clock", "gateway/internal/...", "gateway/metrics", "gateway/natsapi/internal/...", "kvslots", "kvslots/clientnet", "kvslots/reads", "kvslots/subjects", "kvslots/wire"}},
	{"natsembed/listener", []string{"kvslots/clientnet"}},
	{"natsembed/internal/flush", nil},
	{"natsembed", []string{"natsembed/internal/...", "natsembed/listener", "kvslots/clientnet", "kvslots/subjects"}},
	{"kvslots/internal/entry", nil},
	{"kvslots/internal/rules", []string{"kvslots/internal/entry"}},
	{"kvslots/reads", []string{"kvslots/internal/entry"}},
	{"kvslots/internal/peer", []string{"kvslots/reads", "kvslots/internal/rules", "kvslots/internal/entry"}},
	{"kvslots/internal/access", []string{"kvslots/internal/peer"}},
	{"kvslots/internal/bucket", []string{"kvslots/clock", "kvslots/internal/access", "kvslots/internal/peer", "kvslots/internal/rules", "kvslots/internal/entry", "kvslots/subjects"}},
	{"kvslots/internal/backup", []string{"kvslots/clock", "kvslots/internal/bucket", "kvslots/internal/rules", "kvslots/internal/entry"}},
	{"kvslots/internal/sim/stream", []string{"kvslots/internal/entry"}},
	{"kvslots/internal/sim", []string{"kvslots/internal/...", "kvslots/reads"}},
	{"kvslots/logtest", []string{"kvslots/internal/entry"}},
	{"kvslots/internal/natstest", []string{"kvslots/logtest"}},
	{"kvslots/kvslotstest", []string{"kvslots", "kvslots/internal/natstest", "kvslots/natsstore"}},
	{"kvslots/natsstore", []string{"kvslots", "kvslots/internal/access", "kvslots/internal/backup", "kvslots/internal/bucket", "kvslots/internal/peer"}},
	{"kvslots/clientnet", nil},
	{"kvslots/subjects", nil},
	{"kvslots/wire", []string{"kvslots", "kvslots/reads", "kvslots/subjects"}},
	{"kvslots/cosmo", []string{"kvslots", "kvslots/internal/bucket", "kvslots/natsstore"}},
	{"kvslots/client/promisestest", []string{"gateway", "kvslots", "kvslots/kvslotstest", "kvslots/logtest", "kvslots/natsstore"}},
	{"kvslots/client/natsclient", []string{"kvslots", "kvslots/client", "kvslots/client/internal/transport", "kvslots/subjects", "kvslots/wire"}},
	{"kvslots/client", []string{"kvslots/clock", "kvslots", "kvslots/client/internal/transport", "kvslots/subjects", "kvslots/wire"}},
	{"kvslots", []string{"kvslots/clock", "kvslots/internal/access", "kvslots/internal/entry", "kvslots/internal/peer", "kvslots/reads"}},
}

// Imports go one way only, and the packages of the APIs never import each other
// (the module's README, "Project structure").
func TestImports(t *testing.T) {
	for _, file := range sources(t) {
		pkg := path.Dir(file.name)
		for _, spec := range file.tree.Imports {
			imported := importPath(t, spec)
			if imported == "github.com/rs/zerolog" && pkg != "cmd/kvslots/internal/server" {
				t.Errorf("%s imports zerolog: loggers are of log/slog", file.name)
			}
			if strings.HasPrefix(imported, "charm.land/") && pkg != "cmd/kvslots" {
				t.Errorf("%s imports %s: only commands use the terminal", file.name, imported)
			}
			if !strings.HasPrefix(imported, module+"/") {
				continue
			}
			imported = strings.TrimPrefix(imported, module+"/")
			if !mayImport(t, pkg, imported) {
				t.Errorf("%s must not import %s", file.name, imported)
			}
			if strings.HasSuffix(imported, "test") && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports %s, which is for tests", file.name, imported)
			}
		}
	}
}

// A program that uses gateways over HTTP links no NATS.
func TestClientLinksNoNATS(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "./kvslots/client")
	command.Dir = moduleRoot
	packages, err := command.Output()
	if err != nil || bytes.Contains(packages, []byte("nats")) || !bytes.Contains(packages, []byte("kvslots/wire")) {
		t.Errorf("%v\n%s", err, packages)
	}
}

func mayImport(t *testing.T, pkg, imported string) bool {
	t.Helper()
	for _, row := range direction {
		if !within(pkg, row.of) {
			continue
		}
		for _, dir := range row.may {
			if below, ok := strings.CutSuffix(dir, "/..."); imported == dir || ok && within(imported, below) {
				return true
			}
		}
		return false
	}
	t.Errorf("no direction is known for package %s", pkg)
	return true
}

func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// pure are the packages that do no I/O, read no clock and start no goroutine;
// time is an argument.
var pure = []string{"kvslots/reads", "kvslots/internal/entry", "kvslots/internal/rules", "kvslots/internal/peer", "kvslots/internal/sim"}

func isPure(pkg string) bool {
	return slices.ContainsFunc(pure, func(dir string) bool { return within(pkg, dir) })
}

func TestRulesArePure(t *testing.T) {
	clock := map[string]bool{
		"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
		"AfterFunc": true, "Tick": true, "NewTicker": true, "NewTimer": true,
	}
	for _, file := range sources(t) {
		if !isPure(path.Dir(file.name)) {
			continue
		}
		for _, spec := range file.tree.Imports {
			switch imported := importPath(t, spec); {
			case strings.HasPrefix(imported, module+"/kvslots/internal/"), imported == module+"/kvslots/reads":
			case strings.Contains(imported, "."):
				t.Errorf("%s imports %s; only the standard library is allowed", file.name, imported)
			case within(imported, "net"), within(imported, "os"), imported == "io", imported == "context", imported == "sync", within(imported, "log"):
				t.Errorf("%s imports %s", file.name, imported)
			}
		}
		ast.Inspect(file.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", file.name)
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && clock[n.Sel.Name] {
					t.Errorf("%s uses time.%s", file.name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// nested are the modules below the product's.
var nested = []string{"bench/compare", "gateway/codegen", "gateway/observability", "gateway/page/browser"}

// make tests and checks each nested module, and a module that it requires has the version that the
// product requires. The product's go.mod replaces nothing, so that go install accepts it.
func TestNestedModules(t *testing.T) {
	if want := "\nNESTED    = " + strings.Join(nested, " ") + "\n"; !strings.Contains(readDocument(t, "Makefile"), want) {
		t.Errorf("the Makefile has no line %q", strings.TrimSpace(want))
	}
	product, _ := requirements(t, ".")
	for _, name := range moduleFiles(t) {
		dir := path.Dir(name)
		if path.Base(name) != "go.mod" || dir == "." {
			continue
		}
		if !slices.Contains(nested, dir) {
			t.Errorf("there is a go.mod in %s", dir)
		}
		versions, _ := requirements(t, dir)
		for of, version := range versions {
			if own, known := product[of]; known && own != version {
				t.Errorf("%s requires %s %s, and the product %s", dir, of, version, own)
			}
		}
	}
	if strings.Contains(readDocument(t, "go.mod"), "\nreplace") {
		t.Error("the product's go.mod has a replace directive")
	}
}

// The top level stays small.
func TestTopLevel(t *testing.T) {
	known := map[string]bool{
		"cmd": true, "kvslots": true, "gateway": true, "natsembed": true, "bench": true,
		"go.mod": true, "go.sum": true, "Makefile": true, "README.md": true, "LICENSE": true,
		"kvslots-data": true, "bin": true, // left by make; ignored by git
	}
	entries, err := os.ReadDir(moduleRoot)
	kvslotstest.Must(t, err)
	for _, entry := range entries {
		if name := entry.Name(); !known[name] && !strings.HasPrefix(name, ".") {
			t.Errorf("%s does not belong at the top level", name)
		}
	}
}

// source is a Go file that is no test; its name is relative to the module.
type source struct {
	name string
	tree *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	for _, name := range moduleFiles(t) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleRoot, name), nil, parser.SkipObjectResolution)
		kvslotstest.Must(t, err)
		found = append(found, source{name, tree})
	}
	return found
}

func importPath(t *testing.T, spec *ast.ImportSpec) string {
	t.Helper()
	imported, err := strconv.Unquote(spec.Path.Value)
	kvslotstest.Must(t, err)
	return imported
}
