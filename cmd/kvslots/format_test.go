package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

// A gateway does not start on a bucket of another format, and says what to do. A restored
// backup makes the directory start, with the bucket's other settings.
func TestOtherFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, format, want string }{
		{"none", "", "it has no format number, and this kvslots works with format 1: make a backup with the kvslots that wrote the bucket, then restore it with this one: kvslots restore --replace"},
		{"later", "2", `it has the format "2", and this kvslots works with format 1: use a later kvslots`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "kvslots.backup")
			p := startServe(t, noEnv, "--data-dir", dir, "--http-session-idle-timeout", "10m")
			session := p.newSession(t)
			h := p.hold(t, session)
			if code, _, stderr := call(t, noEnv, "backup", file, "--data-dir", dir); code != exitDone {
				t.Fatal(stderr)
			}
			p.stop()
			p.exitCode(t)
			changeBucket(t, dir, func(s *jetstream.StreamConfig) {
				s.Description = "of an operator"
				if s.Metadata["kvslots-format"] = c.format; c.format == "" {
					delete(s.Metadata, "kvslots-format")
				}
			})
			for _, args := range [][]string{
				{"serve", "--http-addr", "127.0.0.1:0"}, {"backup", filepath.Join(t.TempDir(), "b")}, {"restore", file},
			} {
				code, _, stderr := call(t, noEnv, append(args, "--data-dir", dir)...)
				if code != exitFailed || !strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), c.want) {
					t.Errorf("%s: exit code %d, %s", args[0], code, stderr)
				}
			}
			if code, _, stderr := call(t, noEnv, "restore", "--replace", file, "--data-dir", dir); code != exitDone {
				t.Fatalf("restore: exit code %d, %s", code, stderr)
			}
			again := startServe(t, noEnv, "--data-dir", dir)
			h.check(t, again, session)
			again.stop()
			again.exitCode(t)
			changeBucket(t, dir, func(s *jetstream.StreamConfig) {
				if s.Metadata["kvslots-format"] != "1" || s.Description != "of an operator" {
					t.Errorf("the restored bucket has %v, %q", s.Metadata, s.Description)
				}
			})
		})
	}
}

// changeBucket changes the settings of the bucket in the directory of a stopped gateway.
func changeBucket(t *testing.T, dir string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	srv, err := natsembed.Start(t.Context(), natsembed.Config{DataDir: dir, Sync: natsembed.SyncInterval, Logger: logtest.Logger()})
	kvslotstest.Must(t, err)
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		logtest.SearchDir(dir)
	}()
	nc, err := srv.Connect()
	kvslotstest.Must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	kvslotstest.Must(t, err)
	stream, err := js.Stream(t.Context(), "KV_kvslots")
	kvslotstest.Must(t, err)
	s := stream.CachedInfo().Config
	change(&s)
	kvslotstest.Must(t, kvslotstest.Err(js.UpdateStream(t.Context(), s)))
}
