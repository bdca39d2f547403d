package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// transports are the transports to a gateway, with the flags that choose each.
var transports = []struct {
	name string
	open func(t *testing.T) (p *program, flags []string)
}{
	{"http", func(t *testing.T) (*program, []string) {
		p := startServe(t, noEnv, "--data-dir", t.TempDir())
		return p, []string{"--server", p.url}
	}},
	{"nats", func(t *testing.T) (*program, []string) {
		p, url := startNATSTransport(t)
		return p, []string{"--nats-url", url}
	}},
}

// startNATSTransport runs serve with a listener for HTTP and one for NATS.
func startNATSTransport(t *testing.T) (p *program, url string) {
	t.Helper()
	p = startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	return p, p.natsURL(t)
}

// overTransports runs a test over each transport.
func overTransports(t *testing.T, test func(t *testing.T, p *program, transport []string)) {
	for _, d := range transports {
		t.Run(d.name, func(t *testing.T) {
			p, flags := d.open(t)
			test(t, p, flags)
		})
	}
}

// wantCall runs the program and checks its exit code and output. stdout and stderr are
// regular expressions that must match the whole output.
func wantCall(t *testing.T, code int, stdout, stderr string, args ...string) string {
	t.Helper()
	if code != exitDone && stdout == "" && !slices.Contains(args, "--json") {
		stdout = regexp.QuoteMeta(evaluated(args[0], code))
	}
	gotCode, gotOut, gotErr := call(t, noEnv, args...)
	if gotCode != code || !matches(stdout, gotOut) || !matches(stderr, gotErr) {
		t.Errorf("kvslots %s\n got %d, stdout %q, stderr %q\nwant %d, stdout %q, stderr %q",
			strings.Join(args, " "), gotCode, gotOut, gotErr, code, stdout, stderr)
	}
	return gotOut
}

func matches(expression, text string) bool {
	return regexp.MustCompile(`\A(?s:` + expression + `)\z`).MatchString(text)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		ask := func(command string, args ...string) []string {
			return append(append([]string{command, pool}, args...), transport...)
		}
		hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
		wantCall(t, 1, "", "kvslots: no such pool\n", ask("inspect")...)
		wantCall(t, 1, "", "kvslots: no such pool\n", ask("borrow")...)
		wantCall(t, 0, "count 2, in use 0, available 2, waiting 0\n", "", ask("register", "--count", "2")...)
		out := wantCall(t, 0, "KVSLOTS_LEASE=[-0-9a-f]{36}\nKVSLOTS_POSITION=0\nKVSLOTS_FENCE=[0-9]+\nKVSLOTS_EXPIRES_IN=30\nexport KVSLOTS_LEASE KVSLOTS_POSITION KVSLOTS_FENCE KVSLOTS_EXPIRES_IN\n", "", ask("borrow")...)
		wantCall(t, 0, ".*POSITION=1\n.*EXPIRES_IN=7\nexport .*\n", "", ask("borrow", "--ttl", "7")...)
		wantCall(t, 75, "", "kvslots: no resource available: taken by .*, for [0-9]+s; place 1 in the line\n", ask("borrow", "--wait", "1s")...)
		wantCall(t, 0, "count 2, in use 2, available 0, waiting 0\nhash "+hash+"\n", "", ask("inspect")...)
		lease := regexp.MustCompile("LEASE=(.*)").FindStringSubmatch(out)[1]
		wantCall(t, 0, "returned\n", "", ask("return", lease)...)
		wantCall(t, 0, "not held\n", "", ask("return", lease)...)
		wantCall(t, 0, "deleted\n", "", ask("delete")...)
		wantCall(t, 0, "deleted\n", "", ask("delete")...)
		wantCall(t, 1, "", "kvslots: no such pool\n", ask("return", lease)...)
	})
}

// evaluated returns what a command prints, besides its error, when it fails.
func evaluated(command string, code int) string {
	if command == "borrow" {
		return fmt.Sprintf("(exit %d)\n", code)
	}
	return ""
}

// A script that evaluates what borrow prints does not go on without a lease.
func TestBorrowInShell(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval")
	wantCall(t, 0, "count 1, .*\n", "", "register", pool, "--count", "1", "--server", p.url)
	borrow := []string{"borrow", pool, "--server", p.url}
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{borrow, 0, "slot 0\n"},
		{borrow, exitNoSlot, ""},
		{append(borrow, "--no-such-flag"), exitUsage, ""},
		{[]string{"borrow", "no pool", "--server", p.url}, exitUsage, ""},
	} {
		_, text, _ := call(t, noEnv, c.args...)
		for _, script := range []string{`set -e; eval "$1"; echo slot $KVSLOTS_POSITION`, `eval "$1" || exit; echo slot $KVSLOTS_POSITION`} {
			run := exec.Command(shell, "-c", script, "sh", text)
			out, _ := run.Output()
			if code := run.ProcessState.ExitCode(); code != c.code || string(out) != c.out {
				t.Errorf("%v: %s: exit code %d, output %q; want %d, %q", c.args, script, code, out, c.code, c.out)
			}
		}
	}
}

// --json prints the body of the answer over HTTP, byte for byte.
func TestCommandsInJSON(t *testing.T) {
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		ask := func(code int, command string, args ...string) string {
			t.Helper()
			got, out, _ := call(t, noEnv, append(append([]string{command, pool, "--json"}, args...), transport...)...)
			if got != code {
				t.Errorf("%s: exit code %d, want %d", command, got, code)
			}
			return strings.TrimSuffix(out, "\n")
		}
		same := func(got, method, path, body string) {
			t.Helper()
			if _, want := p.ask(t, method, "/l/"+pool+path, body); anyLease(got) != anyLease(want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		same(ask(1, "inspect"), "GET", "", "")
		same(ask(0, "register", "--count", "2"), "PUT", "", `{"count":2}`)
		same(ask(0, "borrow"), "POST", "/borrow", `{"ttl":30}`)
		if got := ask(75, "borrow"); !regexp.MustCompile(`^{"error":"no resource available: taken by .*, for [0-9]+s; place 1 in the line"}$`).MatchString(got) {
			t.Errorf("got %s", got)
		}
		same(ask(0, "inspect"), "GET", "", "")
		unknown := uuid.NewString()
		same(ask(0, "return", unknown), "POST", "/return", `{"lease":"`+unknown+`"}`)
		same(ask(0, "delete"), "DELETE", "", "")
		same(ask(1, "borrow"), "POST", "/borrow", `{"ttl":30}`)
	})
}

// With --json every failure has one form, whatever has failed.
func TestFailuresInJSON(t *testing.T) {
	t.Parallel() // a return is repeated for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token", "hunter2")
	closed := closedPort(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		text string // a regular expression
	}{
		{"refused token", []string{"borrow", pool, "--server", p.url}, exitRefused, "unauthorized; .* requires a token: give --auth-token-file"},
		{"no pool", []string{"borrow", pool, "--server", p.url, "--auth-token", "hunter2"}, 1, "no such pool"},
		{"no gateway", []string{"borrow", pool, "--server", "http://" + closed}, exitNoGateway, "http://.*: connect: connection refused; is --server right, .*"},
		{"no gateway for return", []string{"return", pool, pool, "--server", "http://" + closed}, 1, "http://.*: connect: connection refused; is --server right, .*"},
		{"no NATS", []string{"inspect", pool, "--nats-url", "nats://" + closed}, 1, "NATS: .*"},
		{"no NATS for a limit", []string{"cosmo", "list", "--nats-url", "nats://" + closed}, 1, "NATS: .*"},
		{"no UUID", []string{"borrow", "p"}, 2, "<pool> must be a canonical UUID of 36 characters"},
		{"no lease", []string{"renew"}, 2, "<pool> or <lease> is missing: give both, or set KVSLOTS_POOL or KVSLOTS_LEASE"},
		{"no backup", []string{"restore", filepath.Join(t.TempDir(), "none"), "--nats-url", "nats://" + closed}, 1, ".*no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, noEnv, append(c.args, "--json")...)
			var failed wire.Failure
			if err := json.Unmarshal([]byte(stdout), &failed); err != nil || code != c.code || !matches(c.text, failed.Error) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %d, %q", code, stdout, stderr, c.code, c.text)
			}
			if !strings.Contains("\n"+stderr, "\nkvslots: "+failed.Error+"\n") { // after what it has printed while it tried again
				t.Errorf("another error on standard error: %q", stderr)
			}
		})
	}
}

// anyLease replaces the values that differ from borrow to borrow.
func anyLease(body string) string {
	return regexp.MustCompile(`"(lease|position|expires_at_unix|fence)":("[^"]*"|\d+)`).ReplaceAllString(body, `"$1":…`)
}

func TestWhereThePoolComesFrom(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":3}`, 200, "")
	file := filepath.Join(t.TempDir(), "pool")
	kvslotstest.Must(t, os.WriteFile(file, []byte(pool+"\n"), 0o600))
	for _, c := range []struct {
		name, stdin string
		env         map[string]string
		args        []string
		code        int
	}{
		{"argument", "", nil, []string{pool}, 0},
		{"upper case", "", nil, []string{strings.ToUpper(pool)}, 0},
		{"file", "", nil, []string{"@" + file}, 0},
		{"standard input", pool + "\n", nil, []string{"@-"}, 0},
		{"environment", "", map[string]string{"KVSLOTS_POOL": pool}, nil, 0},
		{"argument before environment", "", map[string]string{"KVSLOTS_POOL": "no UUID"}, []string{pool}, 0},
		{"environment no UUID", "", map[string]string{"KVSLOTS_POOL": "no UUID"}, nil, 2},
		{"empty file", "", nil, []string{"@-"}, 2},
		{"no file", "", nil, []string{"@" + file + ".gone"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"KVSLOTS_SERVER": p.url}
			for name, value := range c.env {
				env[name] = value
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"inspect"}, c.args...), strings.NewReader(c.stdin), &out, &errs, env)
			if code != c.code || code == 0 && !strings.HasPrefix(out.String(), "count 3") {
				t.Errorf("exit code %d, %s%s", code, &out, &errs)
			}
		})
	}
}

// A flag for one transport takes precedence over the environment for the other.
func TestWhichTransport(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":3}`, 200, "")
	dead := "nats://" + closedPort(t)
	if code, _, stderr := call(t, map[string]string{"KVSLOTS_NATS_URL": dead}, "inspect", pool, "--server", p.url); code != 0 {
		t.Errorf("--server over KVSLOTS_NATS_URL: %d %s", code, stderr)
	}
	if code, _, stderr := call(t, map[string]string{"KVSLOTS_SERVER": p.url}, "inspect", pool, "--nats-url", dead); code != 1 || !strings.Contains(stderr, "NATS: ") {
		t.Errorf("--nats-url over KVSLOTS_SERVER: %d %s", code, stderr)
	}
	if code, _, _ := call(t, map[string]string{"KVSLOTS_SERVER": p.url, "KVSLOTS_NATS_URL": dead}, "inspect", pool); code != 2 {
		t.Errorf("both in the environment: %d", code)
	}
}

// A NATS server that requires credentials accepts those of the flags.
func TestCommandsLetThemselvesIn(t *testing.T) {
	_, public, file := newNkey(t)
	for _, c := range []struct {
		name          string
		serve, client []string
	}{
		{"user", []string{"--nats-user", "u", "--nats-password", "hunter2"}, []string{"--nats-user", "u", "--nats-password", "hunter2"}},
		{"token", []string{"--nats-token", "hunter2"}, []string{"--nats-token", "hunter2"}},
		{"nkey", []string{"--nats-nkeys", public}, []string{"--nats-nkey", file}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startServe(t, noEnv, append([]string{"--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0"}, c.serve...)...)
			ask := []string{"register", pool, "--count", "1", "--nats-url", p.natsURL(t)}
			wantCall(t, 0, "count 1, .*", "", append(ask, c.client...)...)
			_, _, stderr := call(t, noEnv, ask...)
			if !strings.Contains(stderr, "Authorization Violation") || strings.Contains(stderr, "hunter2") {
				t.Errorf("without: %s", stderr)
			}
		})
	}
}

// No gateway answers on this NATS.
func TestCommandsWithoutAGateway(t *testing.T) {
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1})
	wantCall(t, 1, "", "kvslots: NATS: "+url+": no gateway is there; is --nats-url right, and a gateway running there\\?\n", "inspect", pool, "--nats-url", url)
}

// The error of a request does not contain the pool, although the URL does.
func TestCommandsKeepSecrets(t *testing.T) {
	t.Parallel() // a return is repeated for seconds
	lease, server := uuid.NewString(), "http://"+closedPort(t)
	for _, args := range [][]string{
		{"register", pool, "--count", "1"}, {"inspect", pool}, {"delete", pool}, {"watch", pool},
		{"borrow", pool}, {"return", pool, lease}, {"run", pool, "--", "true"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			split := append([]string{args[0], args[1], "--server", server}, args[2:]...)
			want := exitFailed
			if args[0] == "borrow" || args[0] == "run" {
				want = exitNoGateway
			}
			code, stdout, stderr := call(t, noEnv, split...)
			if code != want || stdout != evaluated(args[0], want) || !strings.Contains(stderr, "connection refused") {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if strings.Contains(stderr, pool) || strings.Contains(stderr, lease) {
				t.Error(stderr)
			}
		})
	}
}

// The answer of a server that is not a gateway is an error, and is not printed.
func TestCommandsRefuseOtherServers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a page", 200, "<html>", "is --server a kvslots gateway?"},
		{"a page with an error", 502, "<html>", "HTTP status 502"},
		{"escapes", 400, `{"error":"\u001b[2Jboo"}`, "kvslots: ?[2Jboo\n"},
		{"a long story", 400, `{"error":"` + strings.Repeat("a", 5000) + `"}`, strings.Repeat("a", maxText) + "…\n"},
		{"a redirect", 302, "", "HTTP status 302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := fixedAnswer(t, c.status, c.body)
			code, _, stderr := call(t, noEnv, "inspect", pool, "--server", server)
			if code != exitFailed || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stderr %q, want %q", code, stderr, c.want)
			}
		})
	}
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	kvslotstest.Eventually(t, "the condition", condition)
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef kvslots", "fish": "complete -c kvslots"} {
		if code, out, _ := call(t, noEnv, "completion", shell); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, no %q", shell, code, want)
		}
	}
}

// fixedAnswer starts a server that gives the same answer to every request.
func fixedAnswer(t *testing.T, status int, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://elsewhere.invalid/")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// Errors of the client are printed for people.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err       error
		text      string
		temporary bool
	}{
		{wire.NewRefusal(409, http.Header{wire.ErrorHeader: {"no_slot"}}, []byte(`{"error":"no\u001b slot"}`)), "no? slot", false},
		{&client.Unanswered{Err: errors.New("NATS: \u001b")}, "NATS: ?", true},
		{client.ErrAnswerTimeout, "http://h: no gateway answered in time; is --server right, and a gateway running there?", true},
		{&client.Unanswered{Err: io.EOF}, "EOF; is --server right?", true},
		{client.ErrNotUnderstood, "http://h: the answer is not that of a gateway; is --server a kvslots gateway?", false},
	} {
		err := (&lender{at: &settings.Gateway{Server: "http://h"}}).explain(c.err)
		if err.Error() != c.text || client.Temporary(err) != c.temporary {
			t.Errorf("%v is printed as %#v", c.err, err)
		}
		if errors.Is(c.err, kvslots.ErrNoSlot) && !errors.Is(err, kvslots.ErrNoSlot) {
			t.Errorf("%v is not known any more", c.err)
		}
	}
}
