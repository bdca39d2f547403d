package kvslots

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// gateway is a store with a connection of its own over TCP.
type gateway struct {
	*Store
	log         *logtest.Log
	uplink      *uplink
	reconnected atomic.Pointer[time.Time] // the last time
	paused      *atomic.Int64             // the longest pause of the test's process
}

// openGateway opens a store at the first server of url that answers.
func openGateway(t *testing.T, url string, cfg Config) *gateway {
	t.Helper()
	g := &gateway{log: &logtest.Log{}, uplink: &uplink{}, paused: measurePauses(t)}
	nc, err := nats.Connect(url, nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.SetCustomDialer(g.uplink), nats.ReconnectHandler(func(*nats.Conn) {
			now := time.Now()
			g.reconnected.Store(&now)
		}))
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	cfg.Logger = g.log.Logger()
	g.Store, err = Open(t.Context(), nc, cfg)
	natstest.Must(t, err)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// measurePauses measures until the test ends how long its process pauses at most.
func measurePauses(t *testing.T) *atomic.Int64 {
	var longest atomic.Int64
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for last := time.Now(); t.Context().Err() == nil; {
			time.Sleep(10 * time.Millisecond)
			now := time.Now()
			longest.Store(max(longest.Load(), int64(now.Sub(last))))
			last = now
		}
	})
	t.Cleanup(measuring.Wait)
	return &longest
}

// lends reports whether the gateway lends a slot of a pool at once.
func (g *gateway) lends(t *testing.T, pool uuid.UUID) bool {
	_, err := g.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
	return err == nil
}

// uplink opens connections that can lose what is written to them.
type uplink struct{ conn atomic.Pointer[lossyConn] }

func (u *uplink) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c := &lossyConn{Conn: conn}
	u.conn.Store(c)
	return c, nil
}

// cut makes the connection lose what is written to it, and break some time after the first
// loss.
func (u *uplink) cut(after time.Duration) { u.conn.Load().cut.Store(int64(after)) }

type lossyConn struct {
	net.Conn
	cut atomic.Int64 // when it breaks after a lost write; 0: it loses none
	end sync.Once
}

func (c *lossyConn) Write(b []byte) (int, error) {
	after := c.cut.Load()
	if after == 0 {
		return c.Conn.Write(b)
	}
	c.end.Do(func() { time.AfterFunc(time.Duration(after), func() { _ = c.Close() }) })
	return len(b), nil
}

// wantLending checks that every gateway lends again after NATS is back: after the given
// time, or after its reconnect if that was later. A busy machine may take longer, so only
// make soak demands the second that is promised.
func wantLending(t *testing.T, gateways []*gateway, pool uuid.UUID, back time.Time) {
	t.Helper()
	together(t, len(gateways), func(t *testing.T, i int) {
		g := gateways[i]
		eventually(t, "it lends", func() bool { return g.lends(t, pool) })
		lent, back := time.Now(), back
		if at := g.reconnected.Load(); at != nil && at.After(back) {
			back = *at
		}
		t.Logf("lends %v after NATS is back", lent.Sub(back))
		if soaking && lent.Sub(back) > time.Second {
			t.Errorf("lends only %v after NATS is back\n%s", lent.Sub(back), g.log)
		}
	})
}

// After a restart of the server a gateway lent again only after more than 2 s, because
// it noticed the loss of the consumer only by its silence.
func TestFault21ServerRestarts(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, t.TempDir(), syncAlways)
	var gateways []*gateway
	for range 3 {
		gateways = append(gateways, openGateway(t, srv.ClientURL(), Config{}))
	}
	pool := newPool(t, gateways[0].Store, 1000)
	for range inSoak(3, 20) {
		for _, g := range gateways {
			mustBorrow(t, g.Store, pool)
		}
		srv.Restart()
		wantLending(t, gateways, pool, time.Now())
	}
	wantNoSilence(t, gateways...)
}

// A write that was lost with the connection blocked its pool at that gateway for 5 s.
func TestFault21UplinkLost(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, "")
	gateways := []*gateway{openGateway(t, srv.ClientURL(), Config{}), openGateway(t, srv.ClientURL(), Config{})}
	pool := newPool(t, gateways[0].Store, 1000)
	for range inSoak(2, 20) {
		for _, g := range gateways {
			mustBorrow(t, g.Store, pool)
		}
		g := gateways[0]
		before := g.reconnected.Load()
		g.uplink.cut(200 * time.Millisecond)
		lost := make(chan struct{}) // the write of this borrow is lost
		go func() {
			defer close(lost)
			_ = g.lends(t, pool)
		}()
		eventually(t, "the connection is back", func() bool { return g.reconnected.Load() != before })
		wantLending(t, gateways, pool, *g.reconnected.Load())
		<-lost
	}
	wantNoSilence(t, gateways...)
}

// The same for a consumer that is lost while the connection stays, because it was on
// another server than the connection.
func TestFault21ConsumerLost(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "")
	g := openGateway(t, srv.ClientURL(), Config{})
	pool := newPool(t, g.Store, 100)
	js := natstest.JetStream(t, srv.Connect())
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	for range 3 {
		names := stream.ConsumerNames(t.Context())
		for name := range names.Name() {
			natstest.Must(t, stream.DeleteConsumer(t.Context(), name))
		}
		mustBorrow(t, g.Store, pool)
	}
	wantNoSilence(t, g)
}

// The same when a follower of the replicated stream is killed: the feed comes from the leader,
// and goes on.
func TestFault21FollowerKilled(t *testing.T) {
	besideOthers(t)
	for round := range inSoak(1, 5) {
		t.Run(fmt.Sprint(round), followerKilled)
	}
}

func followerKilled(t *testing.T) {
	cluster := natstest.StartCluster(t)
	openPeer(t, cluster.Connect(), Config{Replicas: 3})
	leader := cluster.StreamLeader(bucket.StreamName)
	g := openGateway(t, leader.ClientURL(), Config{})
	pool := newPool(t, g.Store, 100)
	mustBorrow(t, g.Store, pool)
	follower := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *natstest.Server) bool { return s != leader })]
	// One gateway is at the server that will be killed, and connects to the other one.
	moved := openGateway(t, follower.ClientURL()+","+leader.ClientURL(), Config{})
	gateways := []*gateway{g, moved}
	for _, g := range gateways {
		mustBorrow(t, g.Store, pool)
	}
	t.Logf("the server to be killed is the meta leader: %v", follower.JetStreamIsLeader())
	follower.Stop()
	killed := time.Now()
	eventually(t, "the other gateway has moved", func() bool { return moved.reconnected.Load() != nil })
	wantLending(t, gateways, pool, killed)
	wantNoSilence(t, g)
}

// wantNoSilence checks that no peer replaced a watch because of its silence. A pause of the
// machine silences watches, too.
func wantNoSilence(t *testing.T, gateways ...*gateway) {
	t.Helper()
	for _, g := range gateways {
		paused := time.Duration(g.paused.Load()) > 500*time.Millisecond
		if text := g.log.String(); !paused && strings.Contains(text, "no heartbeat") {
			t.Errorf("a lost watch was noticed by its silence:\n%s", text)
		}
	}
}
