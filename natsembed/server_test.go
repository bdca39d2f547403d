package natsembed

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestStartIsReadyWhenItReturns(t *testing.T) {
	for _, sync := range []Sync{"", SyncAlways, SyncInterval} {
		t.Run("sync="+string(sync), func(t *testing.T) {
			srv := startServer(t, Config{DataDir: t.TempDir(), Sync: sync})
			if got, want := srv.nats().JetStreamConfig().SyncAlways, sync != SyncInterval; got != want {
				t.Errorf("SyncAlways = %v, want %v", got, want)
			}
			put(t, srv, "one")
		})
	}
}

func TestRestartKeepsData(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir})
	put(t, srv, "one")
	kvslotstest.Must(t, srv.Close())

	again := startServer(t, Config{DataDir: dir})
	if got := messages(t, again); got != 1 {
		t.Errorf("%d messages after a restart, want 1", got)
	}
}

func TestRelativeDataDir(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t, Config{DataDir: "some/where"})
	info, err := os.Stat("some/where/jetstream")
	kvslotstest.Must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the store's mode is %v, want 0700", info.Mode().Perm())
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := startServer(t, Config{DataDir: dir})

	_, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir})
	if err == nil || err.Error() != "data directory "+dir+" is in use by another kvslots process" {
		t.Fatalf("second start: %v", err)
	}
	put(t, first, "the first goes on")
	kvslotstest.Must(t, errors.Join(first.Close(), first.Close()))
	startServer(t, Config{DataDir: dir})
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	kvslotstest.Must(t, os.WriteFile(file, nil, 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	defer taken.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()

	cases := []struct {
		name string
		ctx  context.Context
		cfg  Config
		want string
	}{
		{"no directory", t.Context(), Config{}, "no data directory"},
		{"a file", t.Context(), Config{DataDir: file}, "not a directory"},
		{"unknown sync", t.Context(), Config{DataDir: t.TempDir(), Sync: "never"}, `sync must be "always", "group" or "interval"`},
		{"address without port", t.Context(), Config{DataDir: t.TempDir(), Addr: "localhost"}, "missing port"},
		{"port out of range", t.Context(), Config{DataDir: t.TempDir(), Addr: "127.0.0.1:65536"}, "between 0 and 65535"},
		{"address in use", t.Context(), Config{DataDir: t.TempDir(), Addr: taken.Addr().String()}, "address already in use"},
		{"cancelled", gone, Config{DataDir: t.TempDir()}, "context canceled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			srv, err := Start(c.ctx, c.cfg)
			if err == nil {
				srv.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not contain %q", err, c.want)
			}
		})
	}
}

func TestFailedStartFreesTheDirectory(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	defer taken.Close()
	dir := t.TempDir()
	if _, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Addr: taken.Addr().String()}); err == nil {
		t.Fatal("no error")
	}
	startServer(t, Config{DataDir: dir})
}

func TestDamagedStreamStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir})
	put(t, srv, "one")
	kvslotstest.Must(t, srv.Close())
	meta := filepath.Join(dir, "jetstream", bucketAccount, "streams", "S", "meta.inf")
	kvslotstest.Must(t, os.WriteFile(meta, []byte("{"), 0o600))

	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir})
	if err == nil {
		srv.Close()
		t.Fatal("a store whose stream was not recovered was taken for a good one")
	}
	if !strings.Contains(err.Error(), "stream S was not recovered") {
		t.Errorf("error %q does not name the stream", err)
	}
}

func TestNoListenerUnlessAsked(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir()})
	if addr := srv.nats().Addr(); addr != nil || srv.ClientURL() != "" {
		t.Errorf("listens on %v, ClientURL %q", addr, srv.ClientURL())
	}
	if addr := srv.nats().MonitorAddr(); addr != nil {
		t.Errorf("monitoring listens on %v", addr)
	}
}

func TestListenerIsOutsideTheBucketsAccount(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	put(t, srv, "one")
	nc, err := nats.Connect(srv.ClientURL())
	kvslotstest.Must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	kvslotstest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it gets no answer
	defer cancel()
	if _, err := js.Stream(ctx, "S"); err == nil {
		t.Error("a client of the listener reaches the bucket's stream")
	}
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T, cfg Config) *Server {
	t.Helper()
	cfg.Logger = cmp.Or(cfg.Logger, logtest.Logger())
	srv, err := Start(t.Context(), cfg)
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		logtest.SearchDir(cfg.DataDir)
	})
	return srv
}

// put creates stream S if need be and stores a message in it.
func put(t *testing.T, srv *Server, text string) {
	t.Helper()
	js := connect(t, srv)
	kvslotstest.Must(t, kvslotstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})))
	kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), "s", []byte(text))))
}

func messages(t *testing.T, srv *Server) uint64 {
	t.Helper()
	stream, err := connect(t, srv).Stream(t.Context(), "S")
	kvslotstest.Must(t, err)
	return stream.CachedInfo().State.Msgs
}

func connect(t *testing.T, srv *Server) jetstream.JetStream {
	t.Helper()
	js, err := srv.jetStream()
	kvslotstest.Must(t, err)
	t.Cleanup(js.Conn().Close)
	return js
}
