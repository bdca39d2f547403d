package natsembed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Another process of the same user reaches the bucket's account through the data
// directory, and no other user does.
func TestDial(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Dial(dir); err == nil {
		t.Error("connected without a server")
	}
	for range 2 { // again after a stop
		srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Local: true})
		kvslotstest.Must(t, err)
		for path, want := range map[string]os.FileMode{socketPath(dir): os.ModeSocket, filepath.Dir(socketPath(dir)): os.ModeDir | 0o700} {
			info, err := os.Lstat(path)
			if err != nil || info.Mode().Type() != want.Type() || want.Perm() != 0 && info.Mode().Perm() != want.Perm() {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
		closed := make(chan struct{})
		nc, err := Dial(dir, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		kvslotstest.Must(t, err)
		js, err := jetstream.New(nc)
		kvslotstest.Must(t, err)
		if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
			t.Error(err)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-closed
		if _, err := os.Lstat(socketPath(dir)); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}

// A server whose data directory has too long a path for a socket starts all the same.
func TestDialTooLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Local: true})
	kvslotstest.Must(t, err)
	defer srv.Close()
	if _, err := Dial(dir); err == nil {
		t.Error("connected")
	}
}

// A socket that a killed process has left does not disturb the next one.
func TestDialAfterKill(t *testing.T) {
	dir := t.TempDir()
	kvslotstest.Must(t, os.MkdirAll(filepath.Dir(socketPath(dir)), 0o777))
	kvslotstest.Must(t, os.WriteFile(socketPath(dir), nil, 0o600))
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Local: true})
	kvslotstest.Must(t, err)
	defer srv.Close()
	nc, err := Dial(dir)
	kvslotstest.Must(t, err)
	nc.Close()
}
