package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

// An earlier release restored a forged backup, whose revision nats-server cannot count on
// from. The gateway does not start on that directory and says why; a good backup makes the
// directory start, with honest fences.
func TestPoisonedDirectory(t *testing.T) {
	good, file := t.TempDir(), filepath.Join(t.TempDir(), "kvslots.backup")
	p := startServe(t, noEnv, "--data-dir", good, "--http-session-idle-timeout", "10m")
	session := p.newSession(t)
	h := p.hold(t, session)
	if code, _, stderr := call(t, noEnv, "backup", file, "--data-dir", good); code != exitDone {
		t.Fatal(stderr)
	}
	config := bucketConfig(t, good)
	for _, first := range []uint64{1 << 52, 1<<53 - 3, 1<<62 - 1, 1 << 62, 1<<63 - 3, 1 << 63, 1<<64 - 2} {
		for name, stop := range map[string]func(t *testing.T, dir string){"stopped": func(*testing.T, string) {}, "killed": unclean} {
			t.Run(strconv.FormatUint(first, 10)+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				config.FirstSeq = first
				poison(t, dir, config)
				stop(t, dir)
				code, _, stderr := call(t, noEnv, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", dir)
				if want := "first_seq is " + strconv.FormatUint(first, 10); code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "restore --replace") {
					t.Errorf("serve: exit code %d, %s", code, stderr)
				}
				if code, _, stderr := call(t, noEnv, "restore", "--replace", file, "--data-dir", dir); code != exitDone {
					t.Fatalf("restore: exit code %d, %s", code, stderr)
				}
				again := startServe(t, noEnv, "--data-dir", dir)
				h.check(t, again, session)
				again.want(t, "PUT", "/l/"+pool, `{"count":3}`, 200, "")
				if lease := again.lend(t); lease.Fence >= 1<<52 {
					t.Errorf("fence %d", lease.Fence)
				}
			})
		}
	}
}

// bucketConfig returns the configuration of the bucket of a running gateway.
func bucketConfig(t *testing.T, dir string) jetstream.StreamConfig {
	t.Helper()
	nc, err := natsembed.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_kvslots")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

// poison creates a bucket in a data directory, with a few entries.
func poison(t *testing.T, dir string, config jetstream.StreamConfig) {
	t.Helper()
	t.Cleanup(func() { logtest.SearchDir(dir) })
	srv, err := natsembed.Start(t.Context(), natsembed.Config{DataDir: dir, Sync: natsembed.SyncInterval, Logger: logtest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for n := range 5 { // nats-server may refuse those beyond its highest sequence
		_, _ = js.Publish(t.Context(), "$KV.kvslots.x."+strconv.Itoa(n), nil)
	}
}

// unclean makes the next start take the directory for that of a killed process.
func unclean(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "clean")); err != nil {
		t.Fatal(err)
	}
}
