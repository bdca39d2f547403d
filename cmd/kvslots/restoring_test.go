package main

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Of several restores at once, each completes, or is refused because another one runs.
func TestRestoresAtOnce(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "kvslots.backup")
	_, p := serveProcess(t, "--data-dir", dir)
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	environment := map[string]string{"KVSLOTS_DATA_DIR": dir}
	if code, _, stderr := call(t, environment, "backup", file); code != exitDone {
		t.Fatal(stderr)
	}
	var all sync.WaitGroup
	var completed atomic.Int32
	for range 4 {
		all.Go(func() {
			code, stdout, stderr := call(t, environment, "restore", file, "--replace")
			if code != exitDone && !strings.Contains(stderr, "another restore is running") {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			if code == exitDone {
				completed.Add(1)
			}
		})
	}
	all.Wait()
	if completed.Load() == 0 {
		t.Error("no restore completed")
	}
	p.eventually(t, "/ready", `"status":"ready"`)
	p.want(t, "GET", "/l/"+pool, "", 200, `"count":2,"in_use":0`)
}

// A restore was killed between the deletion of the old stream and the creation of the new
// one. Gateways that run, and those that start, answer 502 and say what to do. They serve
// when the restore has been repeated.
func TestServeWaitsForARestore(t *testing.T) {
	t.Parallel() // waits for seconds
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()})
	env, file := map[string]string{"KVSLOTS_NATS_URL": url}, filepath.Join(t.TempDir(), "kvslots.backup")
	one := startServe(t, env)
	session := one.newSession(t)
	h := one.hold(t, session)
	if code, _, stderr := call(t, env, "backup", file); code != exitDone {
		t.Fatal(stderr)
	}
	interruptRestore(t, url)

	two := runServe(t, env)
	two.url = "http://" + two.logs.waitFor(t, "waiting for the restore of the bucket")["http"].(string)
	const advice = "the bucket is being restored; if that was interrupted, repeat kvslots restore"
	for _, p := range []*program{one, two} {
		p.eventually(t, "/ready", advice)
		p.want(t, "GET", "/ready", "", 503, advice)
		p.want(t, "GET", "/health", "", 200, "ok")
		p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 502, "safe to retry")
		if !strings.Contains(p.logs.String(), advice) {
			t.Errorf("not in the logs:\n%s", p.logs)
		}
	}
	if code, _, stderr := call(t, env, "restore", file); code != exitDone {
		t.Fatal(stderr)
	}
	h.check(t, two, session)
	one.eventually(t, "/ready", `"status":"ready"`)
}

// interruptRestore leaves what a restore does that is killed after the deletion.
func interruptRestore(t *testing.T, url string) {
	t.Helper()
	js, err := jetstream.New(connectNATS(t, url))
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "kvslots-restore", Subjects: []string{"_KVSLOTS.restore"}})))
	kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), "_KVSLOTS.restore", []byte("_KVSLOTS.gone"))))
	kvslotstest.Must(t, js.DeleteStream(t.Context(), "KV_kvslots"))
}
