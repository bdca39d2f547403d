package kvslots

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// fill writes leases into a bucket, as peers would.
func fill(t *testing.T, nc *nats.Conn, pool uuid.UUID, leases int) {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range leases {
		id := poolHash(pool)
		id[0], id[1] = id[0]^byte(i/1000), id[1]^byte(i/1000>>8)
		value := entry.SlotValue{Lease: leaseHash(uuid.New()), Claimer: leaseHash(pool), Generation: 1, TTL: entry.Span(time.Hour)}
		m := entry.NewMessage(entry.Key{Kind: entry.Slot, Pool: id, N: i % 1000}, value, 0, time.Hour+rules.Guard)
		msg := nats.NewMsg(bucket.SubjectPrefix + m.Key.String())
		msg.Data = m.Data
		m.Headers(msg.Header.Set)
		if _, err := js.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// serve could not start on a bucket with 400,000 to 700,000 leases: Open was bounded
// by 5 s, whatever the caller's context said. Here the entries are few, and come
// slowly; TestSoakFault3OpenLargeBucket has many.
func TestFault3OpenTakesLong(t *testing.T) {
	t.Parallel()
	const entries = 300
	srv := kvslotstest.Start(t, "")
	pool := newPool(t, openPeers(t, srv, 1)[0], 1)
	fill(t, srv.Connect(), pool, entries)
	began := time.Now()
	slow := func(m *nats.Msg, next func(*nats.Msg)) {
		if time.Since(began) < 6*time.Second { // longer than any of the peer's timeouts
			time.Sleep(6 * time.Second / entries)
		}
		next(m)
	}
	s, err := open(t.Context(), srv.Connect(), Config{}, slow)
	if err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	if _, err := s.Inspect(t.Context(), pool); err != nil {
		t.Error(err)
	}
}

// The same with as many entries as a user's bucket had.
func TestSoakFault3OpenLargeBucket(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	srv := kvslotstest.Start(t, "")
	pool := newPool(t, openPeers(t, srv, 1)[0], 1)
	fill(t, srv.Connect(), pool, 700_000)
	began := time.Now()
	s := openPeers(t, srv, 1)[0]
	t.Logf("opened in %v", time.Since(began))
	mustBorrow(t, s, newPool(t, s, 1))
}

// With 1,000 leases kept alive in one pool a renewal took 10 ms, and 60 leases of
// ten seconds were lost. (TestFault4RenewalAmongManyFollowed of package peer counts
// what a renewal costs.)
func TestFault4KeepAliveOfManyLeases(t *testing.T) {
	t.Parallel()
	const leases = 1000
	s := openPeers(t, kvslotstest.Start(t, ""), 1)[0]
	pool := newPool(t, s, leases)
	var kept []*Lease
	var ends []time.Time
	for range leases {
		l, err := s.Borrow(t.Context(), pool, 6*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		kept, ends = append(kept, l), append(ends, l.ExpiresAt())
		t.Cleanup(l.KeepAlive(t.Context()))
	}
	eventually(t, "every lease has been renewed", func() bool {
		for i, l := range kept {
			if !l.ExpiresAt().After(ends[i]) {
				return false
			}
		}
		return true
	})
	lost := 0
	for _, l := range kept {
		select {
		case <-l.Done():
			lost++
		default:
		}
	}
	if lost > 0 {
		t.Errorf("%d leases are lost", lost)
	}
	wantState(t, s, pool, State{Count: leases, InUse: leases})
}

// A gateway whose bucket was deleted stayed unavailable until another process
// created the bucket.
func TestFault6BucketDeleted(t *testing.T) {
	t.Parallel()
	srv := kvslotstest.Start(t, "")
	var log logtest.Log
	peers := []*Store{openOverTCP(t, srv, &log), openOverTCP(t, srv, &log)}
	pool := newPool(t, peers[0], 1)
	l := mustBorrow(t, peers[0], pool)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	if err := js.DeleteStream(t.Context(), bucket.StreamName); err != nil {
		t.Fatal(err)
	}
	for _, s := range peers {
		eventually(t, "a peer has noticed", func() bool {
			_, err := s.Inspect(t.Context(), pool)
			return errors.Is(err, ErrNoPool)
		})
	}
	if text := log.String(); !strings.Contains(text, `{"level":"warn","message":"an operator or a program has deleted the bucket`) || !strings.Contains(text, "kvslots restore") {
		t.Errorf("logged\n%s", text)
	}
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	// A server that has just enabled JetStream may not have found its streams yet.
	if after := stream.CachedInfo().Created.Sub(deleted); after < 3*time.Second {
		t.Errorf("created again after %v", after)
	}
	if _, err := peers[1].Register(t.Context(), pool, 1); err != nil {
		t.Fatal(err)
	}
	if again := mustBorrow(t, peers[0], pool); again.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), l.Fence())
	}
}

// Of three gateways that were started together on a fresh cluster, one in five
// ended with "stream not found".
func TestFault20StartTogether(t *testing.T) {
	t.Parallel()
	cluster := kvslotstest.StartCluster(t)
	var conns []*nats.Conn
	for range 3 {
		conns = append(conns, cluster.Connect())
	}
	js, err := jetstream.New(cluster.Connect())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		stores := make([]*Store, len(conns))
		var all sync.WaitGroup
		for i, nc := range conns {
			all.Go(func() {
				s, err := Open(t.Context(), nc, Config{Logger: logtest.Logger(), Replicas: 3})
				if err != nil {
					t.Errorf("round %d, gateway %d: %v", round, i, err)
					return
				}
				stores[i] = s
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		pool := newPool(t, stores[0], 3)
		for _, s := range stores {
			mustBorrow(t, s, pool)
		}
		for _, s := range stores {
			_ = s.Close(t.Context())
		}
		if err := js.DeleteStream(t.Context(), bucket.StreamName); err != nil {
			t.Fatal(err)
		}
	}
}

// After a restart of the server a gateway lent again only after more than 2 s, because
// it noticed the loss of the consumer only by its silence.
func TestFault21ServerRestarts(t *testing.T) {
	t.Parallel()
	srv := kvslotstest.Start(t, t.TempDir(), syncAlways)
	var log logtest.Log
	s := openOverTCP(t, srv, &log)
	pool := newPool(t, s, 100)
	for range 3 {
		mustBorrow(t, s, pool)
		srv.Restart()
		eventually(t, "it lends", func() bool {
			_, err := s.Borrow(t.Context(), pool, time.Minute, 0)
			return err == nil
		})
	}
	wantNoSilence(t, &log)
}

// The same for a consumer that is lost while the connection stays, because it was on
// another server than the connection.
func TestFault21ConsumerLost(t *testing.T) {
	t.Parallel()
	srv := kvslotstest.Start(t, "")
	var log logtest.Log
	s := openOverTCP(t, srv, &log)
	pool := newPool(t, s, 100)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		names := stream.ConsumerNames(t.Context())
		for name := range names.Name() {
			if err := stream.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		mustBorrow(t, s, pool)
	}
	wantNoSilence(t, &log)
}

// The same when the killed server has the consumer and is a follower of the replicated
// stream: the other servers still list the consumer, but its server does not answer.
func TestFault21FollowerKilled(t *testing.T) {
	t.Parallel()
	cluster := kvslotstest.StartCluster(t)
	first, err := Open(t.Context(), cluster.Connect(), Config{Logger: logtest.Logger(), Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close(context.Background()) })
	leader := cluster.StreamLeader(bucket.StreamName)
	var log logtest.Log
	s := openOverTCP(t, leader, &log)
	pool := newPool(t, s, 100)
	mustBorrow(t, s, pool)
	js, err := jetstream.New(leader.Connect())
	if err != nil {
		t.Fatal(err)
	}
	var follower *kvslotstest.Server
	eventually(t, "a follower has the consumer", func() bool {
		known := consumers(t, js)
		breakWatch(s)
		eventually(t, "there is another consumer", func() bool {
			for name, server := range consumers(t, js) {
				if _, old := known[name]; !old {
					follower = cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *kvslotstest.Server) bool { return s.Name() == server })]
					return true
				}
			}
			return false
		})
		return follower != leader
	})
	mustBorrow(t, s, pool)
	follower.Stop()
	killed := time.Now()
	eventually(t, "it lends", func() bool {
		_, err := s.Borrow(t.Context(), pool, time.Minute, 0)
		return err == nil
	})
	t.Logf("lends again after %v", time.Since(killed))
	wantNoSilence(t, &log)
}

// consumers returns the consumers of the bucket, with the server of each.
func consumers(t *testing.T, js jetstream.JetStream) map[string]string {
	t.Helper()
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for c := range stream.ListConsumers(t.Context()).Info() {
		if c.Cluster != nil && c.Cluster.Leader != "" {
			found[c.Name] = c.Cluster.Leader
		}
	}
	return found
}

func openOverTCP(t *testing.T, srv *kvslotstest.Server, log *logtest.Log) *Store {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := Open(t.Context(), nc, Config{Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// wantNoSilence checks that no peer replaced a watch because of its silence.
func wantNoSilence(t *testing.T, log *logtest.Log) {
	t.Helper()
	if text := log.String(); strings.Contains(text, "no heartbeat") {
		t.Errorf("a lost watch was noticed by its silence:\n%s", text)
	}
}
