//go:build unix

package main

import (
	"testing"
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
