package kvslots

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// fill writes leases into a bucket, as peers would.
func fill(t *testing.T, nc *nats.Conn, pool uuid.UUID, leases int) {
	t.Helper()
	js := natstest.JetStream(t, nc, jetstream.WithPublishAsyncMaxPending(4000))
	for i := range leases {
		id := poolHash(pool)
		id[0], id[1] = id[0]^byte(i/1000), id[1]^byte(i/1000>>8)
		value := entry.SlotValue{Lease: leaseHash(uuid.New()), Claimer: leaseHash(pool), Generation: 1, TTL: entry.Span(time.Hour)}
		m := entry.NewMessage(entry.Key{Kind: entry.Slot, Pool: id, N: i % 1000}, value, 0, time.Hour+rules.Guard)
		msg := nats.NewMsg(bucket.SubjectPrefix + m.Key.String())
		msg.Data = m.Data
		m.Headers(msg.Header.Set)
		natstest.Must(t, natstest.Err(js.PublishMsgAsync(msg)))
	}
	<-js.PublishAsyncComplete()
}

// slowDialer dials connections that deliver 25 KB a second until an instant.
type slowDialer struct{ until time.Time }

func (d slowDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return slowConn{c, d.until}, err
}

type slowConn struct {
	net.Conn
	until time.Time
}

func (c slowConn) Read(b []byte) (int, error) {
	if time.Now().Before(c.until) {
		time.Sleep(10 * time.Millisecond)
		b = b[:min(len(b), 250)]
	}
	return c.Conn.Read(b)
}

// serve could not start on a bucket with 400,000 to 700,000 leases: Open was bounded
// by 5 s, whatever the caller's context said. Here the entries are few, and come slowly.
func TestFault3OpenTakesLong(t *testing.T) {
	t.Parallel()
	const entries = 300
	srv := natstest.Start(t, "")
	pool := newPool(t, openPeers(t, srv, 1)[0], 1)
	fill(t, srv.Connect(), pool, entries)
	began := time.Now()
	nc, err := nats.Connect(srv.ClientURL(), nats.SetCustomDialer(slowDialer{began.Add(6 * time.Second)})) // longer than any of the peer's timeouts
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	s, err := Open(t.Context(), nc, Config{Logger: logtest.Logger()})
	if err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	if _, err := s.Inspect(t.Context(), pool); err != nil {
		t.Error(err)
	}
}

// A gateway whose bucket was deleted stayed unavailable until another process
// created the bucket.
func TestFault6BucketDeleted(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "")
	peers := []*gateway{openGateway(t, srv.ClientURL(), Config{}), openGateway(t, srv.ClientURL(), Config{})}
	pool := newPool(t, peers[0].Store, 1)
	l := mustBorrow(t, peers[0].Store, pool)
	js := natstest.JetStream(t, srv.Connect())
	deleted := time.Now()
	natstest.Must(t, js.DeleteStream(t.Context(), bucket.StreamName))
	for _, s := range peers {
		eventually(t, "a peer has noticed", func() bool {
			_, err := s.Inspect(t.Context(), pool)
			return errors.Is(err, ErrNoPool)
		})
	}
	if text := peers[0].log.String() + peers[1].log.String(); !strings.Contains(text, `{"level":"warn","message":"an operator or a program has deleted the bucket`) || !strings.Contains(text, "kvslots restore") {
		t.Errorf("logged\n%s", text)
	}
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	// A server that has just enabled JetStream may not have found its streams yet.
	if after := stream.CachedInfo().Created.Sub(deleted); after < 3*time.Second {
		t.Errorf("created again after %v", after)
	}
	natstest.Must(t, natstest.Err(peers[1].Register(t.Context(), pool, 1)))
	if again := mustBorrow(t, peers[0].Store, pool); again.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), l.Fence())
	}
}

// Of three gateways that were started together on a fresh cluster, one in five
// ended with "stream not found".
func TestFault20StartTogether(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t)
	js := natstest.JetStream(t, cluster.Connect())
	for range 4 {
		startTogether(t, cluster)
		natstest.Must(t, js.DeleteStream(t.Context(), bucket.StreamName))
	}
}

// startTogether opens three stores at once where there is no bucket yet, has each lend,
// and closes them.
func startTogether(t *testing.T, cluster *natstest.Cluster) {
	t.Helper()
	conns, stores := [3]*nats.Conn{}, [3]*Store{}
	for i := range conns {
		conns[i] = cluster.Connect()
	}
	together(t, len(conns), func(t *testing.T, i int) {
		var err error
		stores[i], err = Open(t.Context(), conns[i], Config{Logger: logtest.Logger(), Replicas: 3})
		natstest.Must(t, err)
	})
	if t.Failed() {
		t.FailNow()
	}
	pool := newPool(t, stores[0], 3)
	for _, s := range stores {
		mustBorrow(t, s, pool)
	}
	for _, s := range stores {
		_ = s.Close(t.Context())
	}
}
