//go:build unix

package kvslots

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// A watcher that comes to a Store which cannot read the bucket waits for it; it does not start over at
// a change that it has read already.
func TestWatchAtAPausedLink(t *testing.T) {
	srv := natstest.Start(t, "")
	ahead := openPeers(t, srv, 1)[0]
	path := new(link)
	nc, err := nats.Connect(srv.ClientURL(), nats.SetCustomDialer(path))
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	behind := openPeer(t, nc, Config{})
	kept := behind.Watch(0)
	defer kept.Close()
	nextEvents(t, kept)
	resume := path.hold()
	pool := newPool(t, ahead, 1)
	at := ahead.Watch(0)
	id := at.ID()
	at.Close()
	w := behind.Watch(id)
	defer w.Close()
	paused, cancel := context.WithTimeout(t.Context(), time.Second) // after which the view need not be caught up
	defer cancel()
	events, err := w.Next(paused)
	resume()
	if err == nil {
		t.Fatalf("while the link is paused, after %d: %+v", id, events)
	}
	mustBorrow(t, ahead, pool)
	if e := nextEvents(t, w); e[0].Type != EventGranted {
		t.Errorf("%+v", e)
	}
}

// link dials the connections of a store, which can be cut and paused.
type link struct {
	net.Dialer
	mu     sync.Mutex
	last   *linkConn
	paused chan struct{} // nil: it is not paused; closed when the pause ends
}

// linkConn delivers nothing while its link is paused, and keeps what is written.
type linkConn struct {
	net.Conn
	link   *link
	unsent []byte // guarded by link.mu
}

func (l *link) Dial(network, address string) (net.Conn, error) {
	c, err := l.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = &linkConn{Conn: c, link: l}
	return l.last, nil
}

// cut closes the connection.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.last.Conn.Close()
}

// pause delays what is sent and received in the next d until d is over.
func (l *link) pause(d time.Duration) {
	resume := l.hold()
	time.Sleep(d)
	resume()
}

// hold delays what is sent and received until resume is called.
func (l *link) hold() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = make(chan struct{})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = l.last.Conn.Write(l.last.unsent)
		l.last.unsent = nil
		close(l.paused)
		l.paused = nil
	}
}

func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.mu.Lock()
	paused := c.link.paused
	c.link.mu.Unlock()
	if paused != nil {
		<-paused
	}
	return n, err
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.link.paused == nil {
		return c.Conn.Write(b)
	}
	c.unsent = append(c.unsent, b...)
	return len(b), nil
}
