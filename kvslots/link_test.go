//go:build unix

package kvslots

import (
	"net"
	"sync"
	"time"
)

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
	l.mu.Lock()
	l.paused = make(chan struct{})
	l.mu.Unlock()
	time.Sleep(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.last.Conn.Write(l.last.unsent)
	l.last.unsent = nil
	close(l.paused)
	l.paused = nil
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
