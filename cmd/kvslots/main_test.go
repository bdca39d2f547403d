package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/client/promisestest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// asProgram makes the test program run as kvslots, for tests that send signals to a
// process.
const asProgram = "KVSLOTS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asDriver) != "":
		drive()
		return
	case os.Getenv(asProgram) != "":
		if takes, err := time.ParseDuration(os.Getenv(slowLookup)); err == nil && takes > 0 {
			promisestest.ResolveSlowly(takes)
		}
		main()
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m), goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*Server).StartRouting")) // of nodes: see package natsembed
}

// newProcess returns the command of kvslots in a process of its own, for startProcess.
func newProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	kvslotstest.Must(t, err)
	process := exec.Command(path, args...)
	process.Env = append(os.Environ(), asProgram+"=1")
	withoutTerminal(process)
	return process
}

// startProcess starts a process that ignores no signal, even if this process does, as
// under nohup(1). It kills the process at the end of the test.
func startProcess(t *testing.T, process *exec.Cmd) {
	t.Helper()
	caught := make(chan os.Signal, 1) // a child starts with the default of a caught signal
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	defer signal.Stop(caught)
	kvslotstest.Must(t, process.Start())
	t.Cleanup(func() { process.Process.Kill() })
}

// endBy sends a signal to a process, and returns its exit code.
func endBy(t *testing.T, process *exec.Cmd, sig os.Signal) int {
	t.Helper()
	kvslotstest.Must(t, process.Process.Signal(sig))
	_ = process.Wait() // the exit code is looked at instead
	return process.ProcessState.ExitCode()
}

// noEnv is an empty environment.
var noEnv settings.Environment

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	kvslotstest.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// searched returns a writer to the output that also looks for secrets: for standard error,
// where standard output may show a lease.
func searched(out *logtest.Output) io.Writer { return io.MultiWriter(out, &logtest.Log{}) }

// call runs the program and waits for its end.
func call(t *testing.T, env settings.Environment, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	out, errs := &logtest.Output{}, &logtest.Log{} // the child of run writes concurrently
	code = run(t.Context(), args, strings.NewReader(""), out, errs, env)
	return code, out.String(), errs.String()
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // texts that they must contain
	}{
		{"version", []string{"version"}, 0, "kvslots version " + buildOf(debug.ReadBuildInfo()).String() + "\n", ""},
		{"version as a flag", []string{"--version"}, 0, "kvslots version " + buildOf(debug.ReadBuildInfo()).String() + "\n", ""},
		{"help", []string{"--help"}, 0, "\n\nUse:\n  lock        Run a command while holding a lock\n  sem ", ""},
		{"help for operators", []string{"--help"}, 0, "\n\nOperate:\n  evict ", ""},
		{"help of lock", []string{"lock", "--help"}, 0, "setsid(1)", ""},
		{"help of serve", []string{"serve", "--help"}, 0, "--http-addr", ""},
		{"no command", nil, 0, "Usage:", ""},
		{"unknown command", []string{"lend"}, 2, "", `kvslots: unknown command "lend"`},
		{"unknown flag", []string{"serve", "--bogus"}, 2, "", "kvslots: unknown flag: --bogus\nRun 'kvslots serve --help' for usage."},
		{"unknown flag of the program", []string{"--bogus"}, 2, "", "unknown flag: --bogus"},
		{"argument", []string{"serve", "now"}, 2, "", `unknown command "now" for "kvslots serve"`},
		{"argument of version", []string{"version", "now"}, 2, "", `unknown command "now" for "kvslots version"`},
		{"flag without value", []string{"serve", "--sync"}, 2, "", "flag needs an argument: --sync"},
		{"bad choice", []string{"serve", "--sync", "never"}, 2, "", `"--sync" flag: must be one of always, interval`},
		{"bad level", []string{"serve", "--log-level", "loud"}, 2, "", `"--log-level" flag: must be one of`},
		{"bad duration", []string{"serve", "--max-ttl", "soon"}, 2, "", `"--max-ttl" flag: must be a duration`},
		{"fraction of a second", []string{"serve", "--max-wait", "1500ms"}, 2, "", `"--max-wait" flag: must be a duration in whole seconds such as "30s" or "1h", or a number of seconds, between 1s and 8760h`},
		{"duration out of range", []string{"serve", "--max-ttl", "0"}, 2, "", `"--max-ttl" flag: must be a duration in whole seconds such as "30s" or "1h", or a number of seconds, between 1s and 8760h`},
		{"negative duration", []string{"serve", "--drain-wait", "-3"}, 2, "", `"--drain-wait" flag: must be a duration such as "30s" or "1h", or a number of seconds, between 0s and 1h`},
		{"replicas out of range", []string{"serve", "--replicas", "6"}, 2, "", "must be an integer between 1 and 5"},
		{"address without port", []string{"serve", "--http-addr", "localhost"}, 2, "", "must be host:port"},
		{"negative rate", []string{"serve", "--http-rate-limit", "-1"}, 2, "", `"--http-rate-limit" flag: must be 0, or a number between 0.001 and 1000000`},
		{"no origin", []string{"serve", "--http-cors-allowed-origins", "https://a,b"}, 2, "", `"--http-cors-allowed-origins" flag: "b" must be an origin`},
		{"replicas of one server", []string{"serve", "--replicas", "3"}, 2, "", "--replicas 3 needs --nats-url"},
		{"user without a NATS", []string{"serve", "--nats-user", "u", "--nats-password", "p"}, 2, "", "--nats-user needs --nats-url or --nats-addr\n--nats-password needs"},
		{"no data directory", []string{"serve", "--data-dir", ""}, 2, "", "--data-dir must not be empty"},
		{"bad address", []string{"serve", "--http-addr", "999.0.0.1:0", "--insecure", "http"}, 1, "", `"level":"error"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, noEnv, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stdout, c.stdout) || c.stdout == "" && stdout != "" {
				t.Errorf("stdout %q, want %q", stdout, c.stdout)
			}
			if !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("stderr %q, want %q", stderr, c.stderr)
			}
		})
	}
}
