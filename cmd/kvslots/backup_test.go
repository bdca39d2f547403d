package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// held is what a gateway reported to clients before a backup.
type held struct {
	lease leaseAnswer
	token string // of the lock k
	fence uint64 // the highest that was reported
}

// hold registers a pool and borrows two of its slots, one of which is returned, and
// acquires a lock.
func (p *program) hold(t *testing.T, session map[string][]string) held {
	t.Helper()
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	h := held{lease: p.lend(t)}
	h.fence = p.lend(t).Fence
	code, _, body := p.askWith(t, session, "POST", "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	var grant struct{ Token string }
	if err := json.Unmarshal([]byte(body), &grant); err != nil || grant.Token == "" {
		t.Fatal(code, body)
	}
	h.token = grant.Token
	return h
}

func (p *program) lend(t *testing.T) (lease leaseAnswer) {
	t.Helper()
	if _, body := p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`); json.Unmarshal([]byte(body), &lease) != nil || lease.Fence == 0 {
		t.Fatal(body)
	}
	return lease
}

// check checks that a gateway serves what was reported before the backup.
func (h held) check(t *testing.T, p *program, session map[string][]string) {
	t.Helper()
	p.eventually(t, "/ready", `"status":"ready"`)
	p.eventually(t, "/l/"+pool, `"in_use":2`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 409, "")
	p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+h.lease.Lease.String()+`"}`, 200, `{"returned":true}`)
	if next := p.lend(t); next.Fence <= h.fence {
		t.Errorf("fence %d after %d", next.Fence, h.fence)
	}
	if code, _, body := p.askWith(t, session, "POST", "/v1/locks/k/release", `{"token":"`+h.token+`"}`); code != 204 {
		t.Errorf("release: %d %s", code, body)
	}
}

// A gateway with an embedded server is backed up while it runs, and restored after it was stopped or killed.
func TestBackupOfAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "kvslots.backup")
	process, p := serveProcess(t, "--data-dir", dir, "--http-session-idle-timeout", "10m")
	session := p.newSession(t)
	h := p.hold(t, session)
	command := func(code int, want string, args ...string) {
		t.Helper()
		if got, stdout, stderr := call(t, map[string]string{"KVSLOTS_DATA_DIR": dir}, args...); got != code || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("%s: exit code %d, %s%s; want %d, %s", args, got, stdout, stderr, code, want)
		}
	}
	command(exitDone, "", "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v beside the backup, %v", left, err)
	}
	command(exitFailed, "is in use by another kvslots process; stop the gateway that uses it, and repeat", "restore", file, "--replace")
	p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":2`)
	kvslotstest.Must(t, process.Process.Kill())
	_ = process.Wait()
	command(exitFailed, "--replace replaces them", "restore", file)
	command(exitDone, "pools 2, leases 3, sessions 1; expired leases 0\n", "restore", file, "--replace")
	again := startServe(t, noEnv, "--data-dir", dir)
	h.check(t, again, session)
	again.stop()
	again.exitCode(t)

	other := filepath.Join(t.TempDir(), "data") // without a gateway
	command(exitFailed, "--data-dir must name the data directory of a gateway, or --nats-url the NATS of one: stat ", "backup", file, "--data-dir", other)
	command(exitDone, `{"pools":2,"leases":3,"sessions":1,"expired":0}`+"\n", "restore", file, "--data-dir", other, "--json")
	command(exitDone, "", "backup", file, "--data-dir", other)
	command(exitDone, "pools 2, leases 3", "restore", file, "--replace", "--data-dir", other)
	h.check(t, startServe(t, noEnv, "--data-dir", other), session)
}

// Gateways on an external NATS are stopped for a restore, which here reads standard input.
func TestBackupOfAnExistingNATS(t *testing.T) {
	t.Parallel()
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), Authorization: "t0ken"})
	env := map[string]string{"KVSLOTS_NATS_URL": url, "KVSLOTS_NATS_TOKEN": "t0ken"}
	one, two := startServe(t, env), startServe(t, env)
	session := one.newSession(t)
	h := one.hold(t, session)
	code, backup, stderr := call(t, env, "backup", "-")
	if code != exitDone {
		t.Fatal(stderr)
	}
	restore := func() (int, *logs) {
		out := newLogs()
		return run(t.Context(), []string{"restore", "-", "--replace"}, strings.NewReader(backup), out, out, env), out
	}
	if code, out := restore(); code != exitFailed || !strings.Contains(out.String(), "a gateway uses the bucket: stop all gateways") {
		t.Errorf("while gateways run: exit code %d, %s", code, out)
	}
	for _, p := range []*program{one, two} {
		p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":2`)
		p.stop()
		p.exitCode(t)
	}
	if code, out := restore(); code != exitDone {
		t.Fatal(out)
	}
	h.check(t, startServe(t, env), session)
}

func TestBackupUsage(t *testing.T) {
	dir := t.TempDir()
	truncated := writeFile(t, "truncated", "{\"kvslots_backup\":1}\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no file", []string{"backup"}, exitUsage, "FILE is missing"},
		{"two places", []string{"backup", "f", "--data-dir", dir, "--nats-url", "a"}, exitUsage, "--data-dir and --nats-url exclude each other"},
		{"no directory", []string{"backup", "f", "--data-dir", ""}, exitUsage, "--data-dir must not be empty"},
		{"password in the URL", []string{"backup", "f", "--nats-url", "http://u:hunter2@a"}, exitUsage, "--nats-url must be"},
		{"no bucket", []string{"backup", filepath.Join(dir, "f"), "--data-dir", dir}, exitFailed, "there is no bucket kvslots"},
		{"truncated", []string{"restore", truncated, "--data-dir", dir}, exitFailed, "not a complete backup"},
		{"no backup", []string{"restore", filepath.Join(dir, "none"), "--data-dir", dir}, exitFailed, "no such file"},
		{"replicas", []string{"restore", truncated, "--replicas", "6"}, exitUsage, "must be an integer between 0 and 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := call(t, noEnv, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "hunter2") {
				t.Errorf("exit code %d, %s", code, stderr)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); !os.IsNotExist(err) {
		t.Errorf("a failed backup leaves a file: %v", err)
	}
}
