package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// mutationVariable is the environment variable with the number of the mutation that a
// program has. It contains all of them, and has none if the variable is not set.
const mutationVariable = "KVSLOTS_MUTATION"

// mutatedFile is the file that is added to each package with mutations.
const mutatedFile = `package %s

import (
	"os"
	"strconv"
)

var mutated, _ = strconv.Atoi(os.Getenv(%q))
`

// writeOverlay writes changed files of the core that contain all mutations, and returns
// the file that makes the go command compile them, as -overlay.
func writeOverlay(t *testing.T, all []mutation) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	add := func(file, text string) {
		original, err := filepath.Abs(filepath.Join("..", file))
		natstest.Must(t, err)
		replace[original] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		natstest.Must(t, os.WriteFile(replace[original], []byte(text), 0o600))
	}
	byFile := map[string][]mutation{}
	for _, m := range all {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for file, of := range byFile {
		add(file, mutateFile(t, file, of))
		add(filepath.Dir(file)+"/mutated.go", fmt.Sprintf(mutatedFile, filepath.Base(filepath.Dir(file)), mutationVariable))
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	natstest.Must(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	natstest.Must(t, os.WriteFile(overlay, list, 0o600))
	return overlay
}

// mutateFile returns a file with mutations. Each one is a copy of the function that has the
// line, which calls the copy if that mutation is asked for.
func mutateFile(t *testing.T, file string, all []mutation) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Error(err)
		return ""
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	natstest.Must(t, err)
	calls, copies := map[int]string{}, "" // calls by the position before which they stand
	for _, m := range all {
		f, changed, err := m.apply(parsed, string(text))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		name := fmt.Sprintf("%s__%d", f.Name.Name, m.number)
		calls[int(f.Body.Lbrace)] += fmt.Sprintf(" if mutated == %d { %s };", m.number, callOf(f, name))
		at := int(f.Name.Pos() - f.Pos())
		copies += fmt.Sprintf("\n//line %s:1\n%s%s%s\n", m.name, changed[:at], name, changed[at+len(f.Name.Name):])
	}
	var b strings.Builder
	from := 0
	for _, at := range slices.Sorted(maps.Keys(calls)) {
		b.Write(text[from:at])
		b.WriteString(calls[at])
		from = at
	}
	b.Write(text[from:])
	b.WriteString(copies)
	return b.String()
}

// apply returns the function with the mutation's line, and its text after the change. It
// ignores indentation.
func (m *mutation) apply(file *ast.File, text string) (in *ast.FuncDecl, changed string, err error) {
	found := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || m.in != "" && f.Name.Name != m.in {
			continue
		}
		lines := strings.Split(text[f.Pos()-file.FileStart:f.End()-file.FileStart], "\n")
		for i, line := range lines {
			if trimmed := strings.TrimSpace(line); trimmed == m.old {
				lines[i] = strings.Replace(line, trimmed, m.new, 1)
				in, changed = f, strings.Join(lines, "\n")
				found++
			}
		}
	}
	if found != 1 {
		return nil, "", fmt.Errorf("%s has %d lines %q in functions", m.file, found, m.old)
	}
	return in, changed, nil
}

// callOf returns the statements by which a function returns what another one does, which has
// the same parameters.
func callOf(f *ast.FuncDecl, name string) string {
	if f.Recv != nil {
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	var arguments []string
	for _, field := range f.Type.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		for _, parameter := range field.Names {
			argument := parameter.Name
			if variadic {
				argument += "..."
			}
			arguments = append(arguments, argument)
		}
	}
	call := name + "(" + strings.Join(arguments, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// buildMutated builds the tests of a package with all mutations.
func buildMutated(t *testing.T, dir, overlay string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "mutated.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o="+program, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
