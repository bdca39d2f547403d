package main

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// stoppedGateway returns the environment for a NATS on which a gateway was stopped, and a backup of its bucket.
func stoppedGateway(t *testing.T) (env map[string]string, file string) {
	t.Helper()
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()})
	env, file = map[string]string{"KVSLOTS_NATS_URL": url}, filepath.Join(t.TempDir(), "kvslots.backup")
	p := startServe(t, env)
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	if code, _, stderr := call(t, env, "backup", file); code != exitDone {
		t.Fatal(stderr)
	}
	p.stop()
	p.exitCode(t)
	return env, file
}

// Of several restores at once, each completes, or is refused because of another one, and the last one completes.
func TestRestoresAtOnce(t *testing.T) {
	env, file := stoppedGateway(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			code, stdout, stderr := call(t, env, "restore", file, "--replace")
			if code != exitDone && code != exitFailed {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
	all.Wait()
	if code, _, stderr := call(t, env, "restore", file, "--replace"); code != exitDone {
		t.Fatal(stderr)
	}
	startServe(t, env).want(t, "GET", "/l/"+pool, "", 200, `"count":2,"in_use":0`)
}

// A gateway does not start on a bucket that is half restored, and says what to do.
func TestHalfRestoredBucket(t *testing.T) {
	env, file := stoppedGateway(t)
	js, err := jetstream.New(connectNATS(t, env["KVSLOTS_NATS_URL"]))
	kvslotstest.Must(t, err)
	stream, err := js.Stream(t.Context(), "KV_kvslots")
	kvslotstest.Must(t, err)
	c := stream.CachedInfo().Config
	delete(c.Metadata, "kvslots-format")
	delete(c.Metadata, "kvslots-store")
	kvslotstest.Must(t, kvslotstest.Err(js.UpdateStream(t.Context(), c)))
	for _, args := range [][]string{{"serve", "--http-addr", "127.0.0.1:0"}, {"backup", "-"}} {
		if code, _, stderr := call(t, env, args...); code != exitFailed || !strings.Contains(stderr, "a restore of it was interrupted: repeat kvslots restore") {
			t.Errorf("%s: exit code %d, %s", args[0], code, stderr)
		}
	}
	if code, _, stderr := call(t, env, "restore", file); code != exitDone {
		t.Fatal(stderr)
	}
	startServe(t, env).want(t, "GET", "/l/"+pool, "", 200, `"count":2,"in_use":0`)
}
