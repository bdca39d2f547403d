package peer_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rooms are the rooms of the package comment: the files of each, and the rooms that it may use.
var rooms = map[string]struct{ files, uses string }{
	"contract": {"config request output errors metrics", ""},
	"kernel":   {"kernel call queue lists", "contract"},
	"post":     {"post write writequeue underway message discard barrier caps", "contract kernel"},
	"keeper":   {"feed loading catchup catchup_check contradiction presence confirmation", "contract kernel post"},
	"leases":   {"told held endings return renew expiry certain evict owned describe", "contract kernel post keeper"},
	"registry": {"register delete outofservice", "contract kernel post keeper leases"},
	"lend":     {"pool borrow wish borrow_phase share caller claiming ticket repeat restart names limitmismatch idlepools enqueue await", "contract kernel post keeper leases"},
	"sessions": {"session session_end", "contract kernel post keeper leases"},
	"look":     {"stats read find ranking event", "contract kernel post keeper leases"},
	"peer":     {"peer hub begin cleaning remains", "contract kernel post keeper leases registry lend sessions look"},
}

// largestCircle is how many files of a package may depend on each other.
var largestCircle = map[string]int{".": 8, "../rules": 8, "../entry": 8}

func roomOf(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".go")
	for room, r := range rooms {
		if slices.Contains(strings.Fields(r.files), base) {
			return room
		}
	}
	return ""
}

// use is a use of a name of another file of the package.
type use struct {
	at       string
	from, to string // files
	object   types.Object
}

// sources imports packages from their sources, each once.
var sources = sync.OnceValue(func() types.Importer {
	if build.Default.GOROOT == "" { // a test that was built with -trimpath does not know it
		if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
			build.Default.GOROOT = strings.TrimSpace(string(out))
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "source", nil)
})

// usesIn returns what the files of a directory use of each other.
func usesIn(t *testing.T, dir string) (uses []use) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: sources()}
	pkg, err := checker.Check(dir, set, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	for id, object := range info.Uses {
		if from, to := set.Position(id.Pos()), set.Position(object.Pos()); object.Pkg() == pkg && from.Filename != to.Filename {
			uses = append(uses, use{from.String(), from.Filename, to.Filename, object})
		}
	}
	return uses
}

// A room uses those before it only, and only by calls: the fields of its types are its own, but for
// those of the contract.
func TestRoomsDependOneWay(t *testing.T) {
	for _, u := range usesIn(t, ".") {
		from, to := roomOf(u.from), roomOf(u.to)
		if from == "" || to == "" {
			t.Fatalf("%s or %s is in no room", u.from, u.to)
		}
		if from == to {
			continue
		}
		if !slices.Contains(strings.Fields(rooms[from].uses), to) {
			t.Errorf("%s: %s uses %s of %s", u.at, from, u.object.Name(), to)
		}
		if v, is := u.object.(*types.Var); is && v.IsField() && !v.Embedded() && to != "contract" {
			t.Errorf("%s: %s uses the field %s of %s", u.at, from, v.Name(), to)
		}
	}
}

func TestNoLargeCircleOfFiles(t *testing.T) {
	for dir, most := range largestCircle {
		after := map[string][]string{}
		for _, u := range usesIn(t, dir) {
			after[u.from] = append(after[u.from], u.to)
		}
		reach := map[string]map[string]bool{}
		for file := range after {
			reach[file] = reachable(after, file)
		}
		for file := range after {
			var circle []string
			for other := range reach[file] {
				if reach[other][file] {
					circle = append(circle, other)
				}
			}
			if slices.Sort(circle); len(circle) > most && circle[0] == file {
				t.Errorf("%d files depend on each other: %v", len(circle), circle)
			}
		}
	}
}

// reachable returns the files on which a file depends.
func reachable(after map[string][]string, from string) map[string]bool {
	seen, next := map[string]bool{}, []string{from}
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		for _, to := range after[file] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

// hubs are the files that keep the view, and those that call all rooms. They ask whether the view is
// live; the others rely on it: a write is not sent, and an alarm does not fire, while it is not.
const hubs = "kernel peer hub feed loading catchup catchup_check contradiction presence"

func TestFewAskWhetherTheViewIsLive(t *testing.T) {
	const most = 5
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	total := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Fields(hubs), strings.TrimSuffix(name, ".go")) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Count(string(text), "k.mode") + strings.Count(string(text), "isLive()") + strings.Count(string(text), "view().Live")
		if n > 0 {
			asked[name] = n
			total += n
		}
	}
	if total > most {
		t.Errorf("asked %d times, at most %d: %v", total, most, asked)
	}
}
