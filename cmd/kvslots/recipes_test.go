package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const recipes = "cmd/kvslots/RECIPES.md"

// language is a language in which the recipes are shown, besides the shell.
type language struct {
	fence   string                                       // of its blocks
	prints  *regexp.Regexp                               // matches a line that prints; its comment has what
	command func(t *testing.T, program string) *exec.Cmd // runs a program, or skips the test
}

var languages = []language{
	{"go", regexp.MustCompile(`(?m)^\s*fmt\.Print.*?\) +// (.*)$`), goCommand},
	{"python", regexp.MustCompile(`(?m)^ *print\(.*\)  # (.*)$`), pythonCommand},
}

// goCommand runs the body of a function.
func goCommand(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	text := `package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

var (
	_ uuid.UUID
	_ time.Time
)

func main() {
	if err := recipe(context.Background()); err != nil {
		panic(err)
	}
}

func recipe(ctx context.Context) error {
` + program + "}\n"
	kvslotstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	command := exec.Command("go", "run", file)
	command.Dir = moduleRoot
	return command
}

// python returns the interpreter, without what may be around it, such as pyenv's shell script.
var python = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 10); print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

func pythonCommand(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	interpreter, err := python()
	if err != nil {
		t.Skipf("there is no python3 of version 3.10 or later: %v", err)
	}
	sources, err := filepath.Abs(filepath.Join(moduleRoot, "kvslots/client/python/src"))
	kvslotstest.Must(t, err)
	command := exec.Command(interpreter, "-W", "error", "-c", program)
	command.Env = append(os.Environ(), "PYTHONPATH="+sources, "PYTHONDONTWRITEBYTECODE=1")
	return command
}

// programs returns the blocks of a text in a language.
func programs(text string, in language) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+in.fence+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// Each recipe is shown in the shell, where TestManualSessions runs it, and in each language. Its program ends well,
// and prints what the comments of the lines that print say.
func TestRecipesInPrograms(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	for _, in := range languages {
		for _, chapter := range strings.Split(readDocument(t, recipes), "\n## ")[1:] {
			title, text, _ := strings.Cut(chapter, "\n")
			t.Run(in.fence+" "+title, func(t *testing.T) {
				t.Parallel() // starting an interpreter takes long
				found := programs(text, in)
				if len(found) != 1 || len(stepsOf(text)) == 0 {
					t.Fatalf("there are %d programs, want 1 and a session", len(found))
				}
				registerPool(t, p.url, text)
				command := in.command(t, strings.ReplaceAll(found[0], "http://127.0.0.1:8080", p.url))
				out, err := command.CombinedOutput()
				var want []string
				for _, match := range in.prints.FindAllStringSubmatch(found[0], -1) {
					want = append(want, match[1])
				}
				printed := strings.TrimRight(string(out), "\n")
				if err != nil || anyTime(printed) != anyTime(strings.Join(want, "\n")) || len(want) == 0 {
					t.Errorf("%v, output\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
				}
			})
		}
	}
}

// registerPool registers the pool of a recipe, if it has one, as its session does.
func registerPool(t *testing.T, url, text string) {
	t.Helper()
	pool := regexp.MustCompile(`(?:KVSLOTS_POOL=|/l/)([-0-9a-f]{36})`).FindStringSubmatch(text)
	if pool == nil {
		return
	}
	count := regexp.MustCompile(`(?:--count |"count": )(\d+)`).FindStringSubmatch(text)[1]
	answer, err := curl([]string{"-X", "PUT", strings.TrimPrefix(url, "http://") + "/l/" + pool[1], "-d", `{"count": ` + count + `}`})
	if err != nil {
		t.Fatalf("%v %s", err, answer)
	}
}

// The recipe's SQL refuses a fence that is lower than one that has written.
func TestRecipeInSQL(t *testing.T) {
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(readDocument(t, recipes))
	if block == nil {
		t.Fatalf("%s has no SQL", recipes)
	}
	script := "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence BIGINT NOT NULL DEFAULT 0);\n" +
		"INSERT INTO account (id, balance) VALUES (7, 100);\n"
	const first, second = 1795449202001374, 1795449202252729
	for _, fence := range []int{first, second, first, second} {
		script += fmt.Sprintf(".parameter set :fence %d\n%sSELECT changes();\n", fence, block[1])
	}
	command := exec.Command(sqlite, "-batch", filepath.Join(t.TempDir(), "bank.db"))
	command.Stdin = strings.NewReader(script + "SELECT balance, fence FROM account;\n")
	out, err := command.CombinedOutput()
	if want := fmt.Sprintf("1\n1\n0\n1\n70|%d\n", second); err != nil || string(out) != want {
		t.Errorf("%v, output %q, want %q", err, out, want)
	}
}
