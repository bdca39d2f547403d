package main

import (
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/bench"
)

// plainServer is a nats-server with JetStream and default settings, in this process,
// with a listener on loopback.
type plainServer struct {
	nats  *server.Server
	inner *nats.Conn // without a socket
	closers
}

// startPlainServer starts a server with its data below dir. With syncAlways the server
// flushes each write before it acknowledges the write.
func startPlainServer(dir string, syncAlways bool) (*plainServer, error) {
	s := &plainServer{}
	if err := s.start(dir, syncAlways); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *plainServer) start(dir string, syncAlways bool) error {
	data, remove, err := bench.TempDir(dir)
	if err != nil {
		return err
	}
	s.add(remove)
	s.nats, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: data, SyncAlways: syncAlways, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.add(func() error {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		return nil
	})
	s.nats.Start()
	if !s.nats.ReadyForConnections(10 * time.Second) {
		return errors.New("nats-server did not become ready")
	}
	if s.inner, err = nats.Connect("", nats.InProcessServer(s.nats)); err != nil {
		return err
	}
	s.add(func() error { s.inner.Close(); return nil })
	return nil
}

func (s *plainServer) url() string { return s.nats.ClientURL() }
