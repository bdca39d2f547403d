//go:build peers

package main

import "testing"

func TestBenchPeerStatus(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, stdout, _ := call(t, noEnv, "bench", "--peer-status")
	want := "redis-server is missing: apt-get install redis-server\netcd is missing: apt-get install etcd-server\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
