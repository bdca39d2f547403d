package kvslots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// wantUnready waits until a store is not ready, for a reason that contains a text.
func wantUnready(t *testing.T, s *Store, reason string) {
	t.Helper()
	eventually(t, "the store is not ready: "+reason, func() bool {
		err := s.Ready()
		return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), reason)
	})
}

func wantReady(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, "the store is ready", func() bool { return s.Ready() == nil })
}

// trouble is a fault that makes the server refuse writes.
type trouble struct {
	unseen bool   // the peer's own writes do not come back, so that its view is caught up
	reason string // the text of Ready's error
	begin  func(t *testing.T, srv *natstest.Server)
	end    func(t *testing.T, srv *natstest.Server)
}

var troubles = map[string]trouble{
	"the server is down": {false, "NATS is not connected",
		func(_ *testing.T, srv *natstest.Server) { srv.Stop() },
		func(_ *testing.T, srv *natstest.Server) { srv.Restart() }},
	"the server's limit is reached": {false, "raise its storage limit",
		func(t *testing.T, srv *natstest.Server) {
			js := admin(t, srv)
			for n := 0; ; n++ {
				if _, err := js.Publish(t.Context(), fmt.Sprint("ballast.", n), make([]byte, 100<<10)); err != nil {
					return
				}
			}
		},
		func(t *testing.T, srv *natstest.Server) {
			natstest.Must(t, admin(t, srv).DeleteStream(t.Context(), "BALLAST"))
		}},
	"the stream's limit is reached": {false, "max_bytes is 1, not -1",
		func(t *testing.T, srv *natstest.Server) { limitStream(t, srv, 1) },
		func(t *testing.T, srv *natstest.Server) { limitStream(t, srv, -1) }},
	"JetStream is disabled": {true, "enable JetStream",
		func(t *testing.T, srv *natstest.Server) {
			natstest.Must(t, srv.ShutdownJetStream())
		},
		func(_ *testing.T, srv *natstest.Server) { srv.Restart() }},
	"permission to publish is taken away": {true, "permit",
		func(t *testing.T, srv *natstest.Server) {
			permit(t, srv, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.>"}}})
		},
		func(t *testing.T, srv *natstest.Server) { permit(t, srv, nil) }},
	"permission to subscribe to the feed is taken away": {true, "_KVSLOTS.>",
		func(t *testing.T, srv *natstest.Server) {
			permit(t, srv, &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_KVSLOTS.>"}}})
		},
		func(t *testing.T, srv *natstest.Server) { permit(t, srv, nil) }},
	"all permissions are taken away": {true, "permit",
		func(t *testing.T, srv *natstest.Server) {
			permit(t, srv, &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{">"}}, Subscribe: &server.SubjectPermission{Deny: []string{">"}},
			})
		},
		func(t *testing.T, srv *natstest.Server) { permit(t, srv, nil) }},
}

// While the server refuses writes, calls return ErrUnavailable, and Ready returns the
// reason for as long as the trouble lasts: also after the watch was lost, or was replaced
// because it did not deliver the peer's own writes. It once said then that the view was
// being checked, for which an operator can only wait. When the server accepts writes again, the store recovers, and no lease is lost.
func TestReadyByWriting(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t, "", func(o *server.Options) {
				o.JetStreamMaxStore = 4 << 20
				o.Users = users(nil)
			})
			s := openAs(t, dial(t, srv, "kvslots"))
			natstest.Must(t, natstest.Err(admin(t, srv).CreateStream(t.Context(), jetstream.StreamConfig{Name: "BALLAST", Subjects: []string{"ballast.>"}})))
			pool := newPool(t, s, 2)
			lease := mustBorrow(t, s, pool)
			natstest.Must(t, s.Ready())
			before := s.Metrics().CatchUps
			trouble.begin(t, srv)
			wantUnready(t, s, trouble.reason)
			if trouble.unseen {
				eventually(t, "the view is caught up", func() bool { return s.Metrics().CatchUps > before })
				wantUnready(t, s, trouble.reason)
			}
			_, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
			wantErr(t, err, ErrUnavailable)
			trouble.end(t, srv)
			wantReady(t, s)
			wantState(t, s, pool, State{Count: 2, InUse: 1, Available: 1})
			mustReturn(t, s, pool, lease)
		})
	}
}

func users(limits *server.Permissions) []*server.User {
	return []*server.User{{Username: "kvslots", Password: "p", Permissions: limits}, {Username: "admin", Password: "p"}}
}

// The server drops the subscriptions that are no longer permitted, and nats.go asks for
// them again only when it reconnects. A store hears by three that last as long as its
// connection: to the feed, to the acknowledgements of its writes, and to the answers to its
// requests. It recovers from the loss of any, and of the readings' as well.
func TestLostSubscriptions(t *testing.T) {
	const readings, feed = "_INBOX.*", "_KVSLOTS.>" // the other two are to _INBOX.*.*
	for name, permitted := range map[string]func(acks, answers string) []string{
		"acknowledgements":             func(_, answers string) []string { return []string{readings, feed, answers} },
		"acknowledgements and answers": func(_, _ string) []string { return []string{readings, feed} },
		"answers and readings":         func(acks, _ string) []string { return []string{acks, feed} },
		"the feed":                     func(acks, answers string) []string { return []string{readings, acks, answers} },
		"the feed and readings":        func(acks, answers string) []string { return []string{acks, answers} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t, "", func(o *server.Options) { o.Users = users(nil) })
			nc := dial(t, srv, "kvslots")
			s := openAs(t, nc)
			answers := nc.NewRespInbox()
			answers = answers[:strings.LastIndexByte(answers, '.')] + ".*"
			permit(t, srv, &server.Permissions{Subscribe: &server.SubjectPermission{Allow: permitted(acks(t, srv, answers), answers)}})
			breakFeed(s) // a store that lives on its feed needs no answers, and no readings
			wantUnready(t, s, "permit")
			permit(t, srv, nil)
			wantReady(t, s)
			pool := newPool(t, s, 1)
			mustReturn(t, s, pool, mustBorrow(t, s, pool))
		})
	}
}

// acks returns the subject of a store's subscription to acknowledgements.
func acks(t *testing.T, srv *natstest.Server, answers string) string {
	t.Helper()
	conns, err := srv.Connz(&server.ConnzOptions{Subscriptions: true})
	natstest.Must(t, err)
	for _, conn := range conns.Conns {
		for _, subject := range conn.Subs {
			if strings.HasSuffix(subject, ".*") && subject != answers {
				return subject
			}
		}
	}
	t.Fatal("the store has no subscription to acknowledgements")
	return ""
}

// openAs opens a store on a connection.
func openAs(t *testing.T, nc *nats.Conn) *Store {
	t.Helper()
	s := openPeer(t, nc, Config{})
	return s
}

// permit changes the permissions of the stores' connections.
func permit(t *testing.T, srv *natstest.Server, limits *server.Permissions) {
	t.Helper()
	srv.Reload(func(o *server.Options) { o.Users = users(limits) })
}

func dial(t *testing.T, srv *natstest.Server, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo(user, "p"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func admin(t *testing.T, srv *natstest.Server) jetstream.JetStream {
	t.Helper()
	js := natstest.JetStream(t, dial(t, srv, "admin"))
	return js
}

// limitStream changes the limit of the bucket's stream, in bytes.
func limitStream(t *testing.T, srv *natstest.Server, bytes int64) {
	t.Helper()
	js := admin(t, srv)
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	config := stream.CachedInfo().Config
	config.MaxBytes = bytes
	natstest.Must(t, natstest.Err(js.UpdateStream(t.Context(), config)))
}

// Without room a store adds no entries, and still ends leases.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	var lack atomic.Pointer[error]
	s, err := Open(t.Context(), natstest.Start(t, "").Connect(), Config{Logger: logtest.Logger(), Room: func() error {
		if err := lack.Load(); err != nil {
			return *err
		}
		return nil
	}})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	pool := newPool(t, s, 1)
	lease := mustBorrow(t, s, pool)
	session, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute))
	natstest.Must(t, err)
	grant, err := s.Acquire(t.Context(), session, Lock("a"), WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	full := errors.New("the disk is nearly full")
	lack.Store(&full)

	wantUnready(t, s, full.Error())
	for name, add := range map[string]func() error{
		"Borrow": func() error {
			_, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			return err
		},
		"Register":      func() error { _, err := s.Register(t.Context(), uuid.New(), 1); return err },
		"CreateSession": func() error { _, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute)); return err },
		"Acquire": func() error {
			_, err := s.Acquire(t.Context(), session, Lock("b"), WithTTL(time.Minute), WithWait(0))
			return err
		},
		"Enqueue": func() error {
			_, _, err := s.Enqueue(t.Context(), session, Lock("a"), WithTTL(time.Minute))
			return err
		},
		"LockOwned": func() error {
			_, err := s.LockOwned(t.Context(), "c", "me", WithTTL(time.Minute), WithWait(0))
			return err
		},
	} {
		if err := add(); !errors.Is(err, ErrFull) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for errno, want := range map[syscall.Errno]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EACCES: false, syscall.EMFILE: false} {
		failed := fmt.Errorf("writing failed (%w)", errno)
		lack.Store(&failed)
		if _, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0)); errors.Is(err, ErrFull) != want || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := lease.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	mustReturn(t, s, pool, lease)
	if err := s.Release(t.Context(), session, Lock("a"), grant.Token); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.EndSession(t.Context(), session), s.Delete(t.Context(), pool)); err != nil {
		t.Error(err)
	}

	lack.Store(nil)
	wantReady(t, s)
	mustBorrow(t, s, newPool(t, s, 1))
}
