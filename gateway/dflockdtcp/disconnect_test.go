package dflockdtcp_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// states are what a client may be doing when it goes, with the lock that the key names. Each
// function returns when the gateway has reached the state.
var states = []struct {
	name  string
	holds bool // the lock, so that it is free only when the client has gone
	enter func(t *testing.T, f *fixture, c *client, key string)
}{
	{"holding", true, func(t *testing.T, f *fixture, c *client, key string) { c.take(t, "l", key, "0 3600") }},
	{"holding in two phases", true, func(t *testing.T, f *fixture, c *client, key string) { c.take(t, "e", key, "3600") }},
	{"holding, within a request", true, func(t *testing.T, f *fixture, c *client, key string) {
		c.take(t, "l", key, "0 3600")
		c.send(t, "ping\n_")
	}},
	{"holding, with requests behind a wait", true, func(t *testing.T, f *fixture, c *client, key string) {
		c.take(t, "l", key, "0 3600")
		c.send(t, "l\n"+key+"\n60\n"+"ping\n_\n_\n")
		f.waiting(t, 1)
	}},
	{"waiting", false, func(t *testing.T, f *fixture, c *client, key string) {
		c.send(t, "l\n"+key+"\n60 3600\n")
		f.waiting(t, 1)
	}},
	{"queued", false, func(t *testing.T, f *fixture, c *client, key string) { c.want(t, "e", key, "3600", "queued") }},
	{"waiting in two phases", false, func(t *testing.T, f *fixture, c *client, key string) {
		c.want(t, "e", key, "3600", "queued")
		c.send(t, "w\n"+key+"\n60\n")
		f.waiting(t, 1)
	}},
	{"within its first request", false, func(t *testing.T, f *fixture, c *client, key string) { c.send(t, "l\n"+key) }},
	{"released", false, func(t *testing.T, f *fixture, c *client, key string) {
		c.want(t, "r", "other", c.take(t, "l", "other", "0"), "ok")
	}},
}

// ends are how a connection may end.
var ends = map[string]func(c *client){
	"close":      func(c *client) { c.Close() },
	"half close": func(c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() },
	"reset": func(c *client) {
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	},
}

// A client that goes, in whatever state and way, leaves nothing.
func TestDisconnect(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	var took []time.Duration
	for _, state := range states {
		for how, end := range ends {
			t.Run(state.name+", "+how, func(t *testing.T) {
				key := fmt.Sprintf("%d", len(took))
				var holder *client
				if !state.holds {
					holder = f.dial(t)
					holder.take(t, "l", key, "0")
				}
				c := f.dial(t)
				state.enter(t, f, c, key)
				next := f.dial(t)
				lines := f.inLines(t)
				next.send(t, "l\n"+key+"\n60\n")
				f.waiting(t, lines+1)
				began := time.Now()
				end(c)
				if holder != nil {
					eventually(t, "the client has left the line", func() bool { return f.inLines(t) == 1 })
					holder.Close()
				}
				if got := next.reply(t); !matches(got, "ok "+aToken+" 33") {
					t.Fatalf("the next client: %q", got)
				}
				took = append(took, time.Since(began))
				next.Close()
				f.nothingHeld(t)
			})
		}
	}
	slices.Sort(took)
	t.Logf("from the end of a connection to the next grant: median %v, longest %v", took[len(took)/2], took[len(took)-1])
	if longest := took[len(took)-1]; longest > 5*time.Second {
		t.Errorf("the longest took %v", longest)
	}
}

// What a client sends before it closes the connection takes effect, unless it takes or waits
// for something.
func TestRequestsBeforeTheEnd(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	holder, other := f.dial(t), f.dial(t)
	token := holder.take(t, "l", "k", "0")
	other.send(t, "r\nk\n"+token+"\nl\nk\n10\n")
	_ = other.Conn.(*net.TCPConn).CloseWrite()
	if got := other.reply(t); got != "ok" {
		t.Errorf("the release: %q", got)
	}
	if got := other.reply(t); got != "(closed)" && !matches(got, "ok "+aToken+" 33") { // it depends on when the end arrives
		t.Errorf("after the end: %q", got)
	}
	holder.Close()
	f.nothingHeld(t)
}

// Each connection has a session of its own, which ends with it.
func TestSessionEndsWithItsConnection(t *testing.T) {
	store := &sessionsOf{Store: openStore(t, kvslots.Config{})}
	f := openFixture(t, store)
	for i := range 3 {
		c := f.dial(t)
		for range 2 {
			c.want(t, "r", "k", c.take(t, "l", "k", "10"), "ok")
		}
		c.Close()
		eventually(t, "no session is left", func() bool {
			stats, err := store.Stats(t.Context())
			return err == nil && stats.Sessions == 0
		})
		if n := len(store.created()); n != i+1 {
			t.Errorf("%d sessions of %d connections", n, i+1)
		}
	}
}

// A lease that another connection has renewed ends with the connection that took it.
func TestRenewedByAnother(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	first, other, next := f.dial(t), f.dial(t), f.dial(t)
	token := first.take(t, "l", "k", "0 3")
	other.want(t, "n", "k", token+" 3600", "ok 3600|ok 3599")
	next.send(t, "l\nk\n60\n")
	f.waiting(t, 1)
	first.Close()
	if got := next.reply(t); !matches(got, "ok "+aToken+" 33") {
		t.Error(got)
	}
}
