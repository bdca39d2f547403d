//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Three gateways with one line each have one line of waiters, and say who is missing.
func TestServeCluster(t *testing.T) {
	t.Parallel() // waits for elections
	code, secret, _ := call(t, noEnv, "cluster", "secret")
	if code != 0 || len(strings.TrimSpace(secret)) != 64 {
		t.Fatalf("code %d, %d bytes", code, len(secret))
	}
	file := writeFile(t, "secret", secret)
	var names []string
	for range 3 {
		names = append(names, fmt.Sprint("127.0.0.1:", kvslotstest.Port(t)))
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var programs []*program
	serve := func(n int) *program {
		p := runServe(t, noEnv, "--cluster", strings.Join(names, ","), "--cluster-secret-file", file, "--cluster-self", names[n], "--data-dir", dirs[n])
		programs = append(programs, p)
		return p
	}
	first := serve(0)
	first.url = "http://" + first.logs.waitFor(t, "waiting for the cluster")["http"].(string)
	first.eventually(t, "/ready", "2 of 3 nodes are missing")
	serve(1)
	serve(2)
	for _, p := range programs {
		p.url = "http://" + p.logs.waitFor(t, "listening")["http"].(string)
	}
	for n := range programs {
		wantCall(t, 0, "ran\n", "", underName([]string{"--server", programs[n].url}, "echo ran", "lock", "a")...)
	}
	kvslotstest.Eventually(t, "all copies are current", func() bool {
		_, out, _ := call(t, noEnv, "cluster", "status", "--data-dir", dirs[1])
		return strings.Count(out, " running ") == 3 && strings.Count(out, " current ") == 2 && strings.Count(out, " leader ") == 1
	})
	wantCall(t, exitFailed, "", ".*runs: stop it first.*", "cluster", "remove", names[2], "--data-dir", dirs[0])
	wantCall(t, exitFailed, "", ".*does not run, or is none of the cluster.*", "cluster", "step-down", "nobody", "--data-dir", dirs[0])
	wantCall(t, 0, "", "", "cluster", "step-down", names[0], "--data-dir", dirs[1])
	programs[2].end(t)
	wantCall(t, 0, "ran\n", "(?s).*", underName([]string{"--server", first.url}, "echo ran", "lock", "b", "--wait", "60s")...)
	programs[1].end(t)
	first.eventually(t, "/ready", "2 of 3 nodes are missing")
	first.want(t, "PUT", "/l/"+pool, `{"count":1}`, 503, names[1])
	first.want(t, "GET", "/l/"+pool, "", 503, names[1])
	if code, _, stderr := call(t, noEnv, "cluster", "status", "--data-dir", filepath.Join(dirs[0], "none")); code != exitFailed || !strings.Contains(stderr, "is the gateway of this directory running?") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
