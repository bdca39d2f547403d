package peer_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the rooms of the package comment: the files of each, and the rooms that it may use.
var rooms = map[string]struct{ files, uses string }{
	"kernel":   {"config request output errors kernel call queue feed loading catchup catchup_check contradiction write writequeue underway message discard barrier presence confirmation caps told metrics lists event", ""},
	"pools":    {"pool borrow line borrow_phase share caller claiming ticket repeat restart held return renew expiry register inspect delete", "kernel"},
	"names":    {"names idlepools", "kernel pools"},
	"enqueue":  {"enqueue await", "kernel pools"},
	"sessions": {"session session_end", "kernel"},
	"extras":   {"owned follow stats read ranking evict setout", "kernel pools names"},
	"peer":     {"peer begin cleaning remains", "kernel pools names enqueue sessions extras"},
}

func roomOf(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".go")
	for room, r := range rooms {
		if slices.Contains(strings.Fields(r.files), base) {
			return room
		}
	}
	return ""
}

func TestRoomsDependOneWay(t *testing.T) {
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		if roomOf(name) == "" {
			t.Errorf("%s is in no room", name)
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: importer.ForCompiler(set, "source", nil)}
	pkg, err := checker.Check("peer", set, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || object.Name() == "Peer" && roomOf(set.Position(id.Pos()).Filename) == "kernel" { // Request.begin names it
			continue
		}
		at := set.Position(id.Pos())
		from, to := roomOf(at.Filename), roomOf(set.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(strings.Fields(rooms[from].uses), to) {
			t.Errorf("%s: %s uses %s of %s", at, from, object.Name(), to)
		}
	}
}

// keeper are the files that keep the view, and those that call all rooms. They ask whether the view is
// live; the others rely on it: a write is not sent, and an alarm does not fire, while it is not.
const keeper = "kernel peer feed loading catchup catchup_check contradiction"

func TestFewAskWhetherTheViewIsLive(t *testing.T) {
	const most = 5
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	total := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Fields(keeper), strings.TrimSuffix(name, ".go")) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "feed.mode") + strings.Count(string(text), "view.Live"); n > 0 {
			asked[name] = n
			total += n
		}
	}
	if total > most {
		t.Errorf("asked %d times, at most %d: %v", total, most, asked)
	}
}
