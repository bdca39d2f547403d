package bucket

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A feed that comes faster than the peer applies it is dropped, and the peer catches up.
func TestSlowPeer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "")
	b := notStarted(t, srv.Connect(), nil)
	b.feed.wire = make(chan *nats.Msg, 100)
	natstest.Must(t, b.start(t.Context()))
	t.Cleanup(func() { b.Close(t.Context()) })
	other := openBucket(t, srv.Connect(), Config{})
	live(t, b)
	before := readings(b)
	b.WithPeer(func(*peer.Peer, peer.Instant) { // the peer is busy meanwhile
		for n := range 3 {
			registers(t, other, fmt.Sprint(n))
		}
		natstest.Eventually(t, "entries are dropped", func() bool {
			registers(t, other, "3")
			for n := range cap(b.feed.wire) {
				natstest.Must(t, natstest.Err(b.js.Publish(t.Context(), SubjectPrefix+fmt.Sprint("foreign", n), nil)))
			}
			n, err := b.feed.entries.Load().Dropped()
			return err == nil && n > 0
		})
	})
	natstest.Eventually(t, "the view has all pools", func() bool { return count(t, b, "0") == 3 && count(t, b, "3") == 3 })
	live(t, b)
	if n := readings(b); n <= before {
		t.Errorf("%d readings, as before", n)
	}
}

// Foreign and corrupt entries that the feed delivers are counted, and not applied.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	b := openBucket(t, nc, Config{})
	live(t, b)
	js := natstest.JetStream(t, nc)
	pool := entry.Key{Kind: entry.Config, Pool: entry.HashOf("pool", "corrupt")}
	for _, key := range []string{"foreign", pool.String()} {
		for range 2 {
			natstest.Must(t, natstest.Err(js.Publish(t.Context(), SubjectPrefix+key, []byte("{"))))
		}
	}
	natstest.Eventually(t, "the entries are counted", func() bool { return b.Metrics().Foreign == 4 })
	if n := readings(b); n != 1 {
		t.Errorf("%d readings", n)
	}
}

// A writer cannot choose the sequence of an entry: of two headers, the server's is last.
func TestForgedSequence(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	b := openBucket(t, nc, Config{})
	live(t, b)
	m := nats.NewMsg(SubjectPrefix + "foreign")
	m.Header.Set("Nats-Sequence", "7")
	m.Header.Set("Nats-Time-Stamp", "never")
	natstest.Must(t, nc.PublishMsg(m))
	natstest.Eventually(t, "the entry is counted", func() bool { return b.Metrics().Foreign == 1 })
	live(t, b)
	if n := readings(b); n != 1 {
		t.Errorf("%d readings", n)
	}
}

func restricted(denied *server.Permissions) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "kvslots", Password: "p", Permissions: denied}, {Username: "admin", Password: "p"}}
	}
}

func connectAs(t *testing.T, srv *natstest.Server, user string) *nats.Conn {
	t.Helper()
	return dial(t, srv, nats.UserInfo(user, "p"))
}

// dial connects over TCP, so that the connection survives a restart of the server.
func dial(t *testing.T, srv *natstest.Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), append(options, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// Open returns at once, and names the subject, if the account may not subscribe to the feed.
func TestFeedDenied(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "", restricted(&server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_KVSLOTS.>"}}}))
	_, err := Open(t.Context(), connectAs(t, srv, "kvslots"), Config{Logger: logtest.Logger()})
	if !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, errFeedDenied) || !strings.Contains(err.Error(), "_KVSLOTS.>") {
		t.Errorf("got %v", err)
	}
}

// When the permission for the feed is taken away, Ready names the subject; when it is given
// back, the peer subscribes again, without a reconnect.
func TestFeedPermissionTakenAway(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "", restricted(nil))
	nc := connectAs(t, srv, "kvslots")
	b := openBucket(t, nc, Config{})
	live(t, b)
	srv.Reload(restricted(&server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_KVSLOTS.>"}}}))
	natstest.Eventually(t, "Ready names the subject", func() bool {
		err := b.Ready()
		return err != nil && strings.Contains(err.Error(), "_KVSLOTS.>")
	})
	srv.Reload(restricted(nil))
	live(t, b)
	if n := nc.Stats().Reconnects; n != 0 {
		t.Errorf("%d reconnects", n)
	}
}
