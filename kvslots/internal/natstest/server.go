package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Server is a nats-server with JetStream. It stops at the end of the test.
type Server struct {
	*server.Server
	t    testing.TB
	opts server.Options
}

// Start starts a server that keeps its data in dir, or in a new temporary directory if
// dir is "". The change functions may modify the server's options.
func Start(t testing.TB, dir string, change ...func(*server.Options)) *Server {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	s := &Server{t: t, opts: server.Options{
		Host: "127.0.0.1", Port: Port(t), JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	}}
	for _, c := range change {
		c(&s.opts)
	}
	s.start()
	t.Cleanup(func() {
		s.Stop()
		logtest.SearchDir(dir)
	})
	return s
}

func (s *Server) start() {
	s.t.Helper()
	opts := s.opts
	srv, err := server.NewServer(&opts)
	if err != nil {
		s.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		s.t.Fatal("nats-server did not become ready")
	}
	s.Server = srv
}

func JetStream(t testing.TB, nc *nats.Conn, opts ...jetstream.JetStreamOpt) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Restart stops the server, if it is running, and starts it again on the same directory and port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}

func (s *Server) Reload(change func(*server.Options)) {
	s.t.Helper()
	change(&s.opts)
	opts := s.opts
	if err := s.ReloadOptions(&opts); err != nil {
		s.t.Fatal(err)
	}
}

// Connect connects to the server in process. The connection is closed at the end of the
// test.
func (s *Server) Connect(opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	opts = append([]nats.Option{nats.InProcessServer(s.Server), nats.FlusherTimeout(0)}, opts...) // as natsembed connects
	nc, err := nats.Connect("", opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}
