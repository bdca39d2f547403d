package backup_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// slowServer is a server within the process whose answers are held back for a second when
// the client has begun to write to the bucket. A server that flushes each write alone to a
// slow disk also acknowledges many writes together, and late.
type slowServer struct{ nats.InProcessConnProvider }

func (s slowServer) InProcessConn() (net.Conn, error) {
	conn, err := s.InProcessConnProvider.InProcessConn()
	return &slowConn{Conn: conn, answers: make(chan struct{})}, err
}

type slowConn struct {
	net.Conn
	begun   sync.Once
	written atomic.Bool
	answers chan struct{} // closed when answers may pass
}

func (c *slowConn) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("PUB "+bucket.SubjectPrefix)) {
		c.begun.Do(func() {
			c.written.Store(true)
			time.AfterFunc(time.Second, func() { close(c.answers) })
		})
	}
	return c.Conn.Write(text)
}

func (c *slowConn) Read(text []byte) (int, error) {
	n, err := c.Conn.Read(text)
	if c.written.Load() {
		<-c.answers
	}
	return n, err
}

// A restore waits for a server that takes longer for its writes than package jetstream
// would wait.
func TestRestoreToSlowServer(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	const pools = 600 // more than may be unacknowledged
	for range pools {
		natstest.Must(t, natstest.Err(s.Register(t.Context(), uuid.New(), 1)))
	}
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	other := natstest.Start(t, "")
	restored, err := backup.Restore(t.Context(), other.Connect(nats.InProcessServer(slowServer{other})), b, backup.Options{})
	if err != nil || restored.Pools != pools {
		t.Errorf("restored %+v, %v", restored, err)
	}
}
