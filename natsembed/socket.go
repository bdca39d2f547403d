package natsembed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// The socket is in a directory that only its owner may enter, so there is no moment at
// which another user could connect.
const (
	socketDir  = "local"
	socketFile = "nats.sock"
)

func socketPath(dataDir string) string { return filepath.Join(dataDir, socketDir, socketFile) }

// listenLocally opens the socket, which connects other processes of the same user to the
// bucket's account, as Connect does within the process. Such a user can read and change the
// files of the data directory anyway. A server without the socket works all the same: the
// path may be longer than the system allows for a socket.
//
// A connection begins with a line from the server, the seed of the nkey with which the
// client connects. The rest is NATS.
func (s *Server) listenLocally() {
	listener, err := openSocket(s.dir.path)
	if err != nil {
		s.cfg.Logger.Warn("no local socket: kvslots backup needs this process to be stopped", "error", err)
		return
	}
	s.tasks.Go(func() { s.acceptLocal(listener) })
	s.tasks.Go(func() {
		<-s.stopping
		_ = listener.Close() // removes the file
	})
}

func openSocket(dataDir string) (net.Listener, error) {
	path := socketPath(dataDir)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// A killed process leaves its socket. The lock shows that the process has ended.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

func (s *Server) acceptLocal(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.tasks.Go(func() { s.serveLocal(conn) })
	}
}

// serveLocal connects a client with the server, until either hangs up or the server closes.
func (s *Server) serveLocal(client net.Conn) {
	defer client.Close()
	seed, err := s.keys.bucket.Seed()
	if err != nil {
		return
	}
	if _, err := client.Write(append(seed, '\n')); err != nil {
		return
	}
	server, err := s.InProcessConn()
	if err != nil {
		return
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, way := range []struct{ to, from net.Conn }{{server, client}, {client, server}} {
		s.tasks.Go(func() {
			_, _ = io.Copy(way.to, way.from)
			ended <- struct{}{}
		})
	}
	select {
	case <-ended:
	case <-s.stopping:
	}
}

// Dial connects to the account that owns the bucket, at the server that another process
// of the same user runs on a data directory. The connection does not reconnect. The
// caller must close it.
func Dial(dataDir string, opts ...nats.Option) (*nats.Conn, error) {
	conn, key, err := dialSocket(socketPath(dataDir))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	nc, err := nats.Connect("", append([]nats.Option{
		nats.InProcessServer(conn), key.option(), nats.NoReconnect(),
	}, opts...)...)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return nc, nil
}

// dialSocket connects to a socket, and returns the nkey from the server's first line.
func dialSocket(path string) (greeted, nkey, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return greeted{}, nkey{}, err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	key, wrong := nkeyOf(nkeys.FromSeed([]byte(strings.TrimSuffix(line, "\n"))))
	if err != nil || wrong != nil {
		_ = conn.Close()
		return greeted{}, nkey{}, errors.New("the server on it did not answer as kvslots does")
	}
	return greeted{conn, reader}, key, nil
}

// greeted is a connection whose first line was read. It is its own provider for NATS.
type greeted struct {
	net.Conn
	reader *bufio.Reader
}

func (g greeted) Read(p []byte) (int, error) { return g.reader.Read(p) }

func (g greeted) InProcessConn() (net.Conn, error) { return g, nil }
