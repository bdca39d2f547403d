package sim

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutationsCompile checks the types of each changed file against the declarations of
// the rest of its package. Building all of them would take minutes.
func TestMutationsCompile(t *testing.T) {
	all := readMutations(t)
	fset := token.NewFileSet()
	declarations := map[string]map[string]*ast.File{} // of each package, by its directory and file
	for _, m := range all {
		if dir := filepath.Dir(m.file); declarations[dir] == nil {
			declarations[dir] = parseDeclarations(t, fset, dir)
		}
	}
	imports := importer.ForCompiler(fset, "gc", exportData(t))
	for _, m := range all {
		text, err := m.apply()
		if err != nil {
			continue // TestMutationsApply reports it
		}
		changed, err := parser.ParseFile(fset, "changed.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		files := []*ast.File{changed}
		for name, f := range declarations[filepath.Dir(m.file)] {
			if name != filepath.Base(m.file) {
				files = append(files, f)
			}
		}
		c := types.Config{Importer: imports, Error: func(err error) {
			if e, ok := err.(types.Error); ok && fset.Position(e.Pos).Filename == "changed.go" { // the others do not use their imports
				t.Errorf("%s: %v", m.name, err)
			}
		}}
		_, _ = c.Check("changed", fset, files, nil)
	}
}

// parseDeclarations parses the files of a package, without the bodies of functions.
func parseDeclarations(t *testing.T, fset *token.FileSet, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if function, ok := d.(*ast.FuncDecl); ok {
				function.Body = nil
			}
		}
		files[filepath.Base(name)] = f
	}
	return files
}

// exportData returns a function that opens the types that a package exports, for all
// packages which those of this directory's parent import.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "../bucket", "../peer").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}
