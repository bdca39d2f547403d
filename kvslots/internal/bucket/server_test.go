package bucket

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// freezer is a dialer whose connections can be frozen: nothing comes any more, and what is
// sent is lost, but they are not closed.
type freezer struct {
	mu    sync.Mutex
	conns []*freezable
}

type freezable struct {
	net.Conn
	frozen chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (f *freezer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c := &freezable{Conn: conn, frozen: make(chan struct{}), closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
	return c, nil
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		close(c.frozen)
	}
	f.conns = nil
}

func (c *freezable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.frozen:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *freezable) Write(b []byte) (int, error) {
	select {
	case <-c.frozen:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

func (c *freezable) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A peer whose server lets it hear nothing, on a connection that stays, goes to another
// server.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t)
	f := &freezer{}
	nc := cluster.Connect(nats.SetCustomDialer(f))
	b := openBucket(t, nc, Config{Replicas: 3})
	live(t, b)
	server := nc.ConnectedServerId()
	f.freeze()
	began := time.Now()
	natstest.Eventually(t, "another server is connected", func() bool {
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) {
			if b.unled == 0 && nc.ConnectedServerId() == server {
				b.unled = now // as if a caller had the peer write
			}
		})
		id := nc.ConnectedServerId()
		return id != server && id != ""
	})
	t.Logf("another server is connected after %v", time.Since(began))
	live(t, b)
	t.Logf("ready after %v", time.Since(began))
	registers(t, b, "a")
}

// The only server that is known is not left: there is nothing to gain.
func TestOnlyServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "")
	f := &freezer{}
	nc := dial(t, srv, nats.SetCustomDialer(f))
	b := openBucket(t, nc, Config{})
	live(t, b)
	f.freeze()
	natstest.Eventually(t, "the server counts as cut off for a while", func() (is bool) {
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) { is = b.isCutOff(cutOff+500*time.Millisecond, now) })
		return is
	})
	if n := nc.Stats().Reconnects; n != 0 {
		t.Errorf("%d reconnects", n)
	}
	_ = nc.ForceReconnect() // it would not close before
	live(t, b)
}

// A peer that only meets refusals is not told that its leader leads, unless the stream has
// one copy: a leader that is cut off goes on refusing.
func TestCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		copies int
		ack    peer.Ack
		fed    bool
		cutOff bool
	}{
		"no answer":                  {copies: 3, ack: peer.Ack{Outcome: peer.Unknown}, cutOff: true},
		"written":                    {copies: 3, ack: peer.Ack{Outcome: peer.Written, Revision: 7}},
		"refused":                    {copies: 3, ack: peer.Ack{Outcome: peer.Conflict, Revision: 7}, cutOff: true},
		"refused by the only server": {copies: 1, ack: peer.Ack{Outcome: peer.Conflict, Revision: 7}},
		"refused without a name":     {copies: 3, ack: peer.Ack{Outcome: peer.InFlight}, cutOff: true},
		"entries come":               {copies: 3, ack: peer.Ack{Outcome: peer.InFlight}, fed: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var h heard
			h.wrote(1)
			h.answered(c.ack, c.copies, 2)
			if c.fed {
				h.fed(8)
			}
			if got := h.isCutOff(cutOff, peer.Instant(1).Add(cutOff)); got != c.cutOff {
				t.Errorf("cut off: %v", got)
			}
		})
	}
}
