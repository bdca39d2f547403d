//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Every client command tries several servers in turn.
func TestSeveralServers(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	dead := "http://" + closedPort(t)
	for name, way := range map[string][]string{
		"separated": {"--server", dead + "," + p.url},
		"repeated":  {"--server", dead, "--server", p.url},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(args ...string) []string { return append(args, way...) }
			wantCall(t, 0, "count 1, .*\n", "", with("register", pool, "--count", "1")...)
			wantCall(t, 0, "count 1, .*\n", "", with("inspect", pool)...)
			wantCall(t, 0, "ran\n", "", shell(way, `echo ran`)...)
			wantCall(t, 0, "ready, .*\n", "", with("ready")...)
			wantCall(t, 0, "deleted\n", "", with("delete", pool)...)
		})
	}
	env := map[string]string{"KVSLOTS_SERVER": dead + ", " + p.url}
	if code, out, stderr := call(t, env, "register", pool, "--count", "1"); code != 0 {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	wantCall(t, 2, "", "kvslots: --server must be a URL .*\n", "inspect", pool, "--server", p.url+",nats://a")
}

// When its gateway is gone, run renews at another one, and returns the slot there.
func TestRunCommandAtAnotherGateway(t *testing.T) {
	t.Parallel() // waits for seconds
	_, url := runNATS(t, jetStreamOptions(t))
	one, other := startServe(t, noEnv, "--nats-url", url), startServe(t, noEnv, "--nats-url", url)
	other.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	end := filepath.Join(t.TempDir(), "end")
	out, code := start(t, shell([]string{"--server", one.url + "," + other.url},
		`echo runs; while ! [ -e `+end+` ]; do sleep 0.02; done; exit 5`, "--ttl", "6s")...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "runs") })
	one.stop()
	one.exitCode(t)
	other.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":1,"wait":10}`, 409, "") // longer than the lease would last
	kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
	if got := <-code; got != 5 {
		t.Errorf("exit code %d:\n%s", got, out)
	}
	other.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
}
