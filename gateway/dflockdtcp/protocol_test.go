package dflockdtcp_test

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
)

const (
	unknownToken = "000000000000000000000000deadbeef"
	aToken       = "[0-9a-f]{32}"
	longKey      = 256
)

// step is a request of one of several connections, and its reply. TOKEN stands for the
// latest token, and "later" for a reply that comes with a later step of the connection, whose
// command is "".
type step struct {
	on                        int
	command, key, args, reply string
}

// protocol is the whole protocol: scenarios, each with connections of its own.
var protocol = []struct {
	name  string
	steps []step
}{
	{"ping", []step{
		{0, "ping", "_", "_", "ok"},
		{0, "ping", "", "", "ok"},
		{0, "ping", strings.Repeat("k", 256), strings.Repeat("a", 256), "ok"},
	}},
	{"commands", []step{
		{0, "ping", "_", "_", "ok"}, // with another first command the connection is closed
		{0, "", "k", "1", "error"},
		{0, "L", "k", "1", "error"},
		{0, " l", "k", "1", "error"},
		{0, "ll", "k", "1", "error"},
		{0, "\xff", "k", "1", "error"},
		{0, "auth", "_", "secret", "error"}, // no token is configured
		{0, "ping", "_", "_", "ok"},
	}},
	{"keys", []step{
		{0, "l", "", "1", "error"},
		{0, "l", " ", "1", "error"},
		{0, "l", "a b", "1", "error"},
		{0, "l", "a\tb", "1", "error"},
		{0, "l", "a\x00b", "1", "error"},
		{0, "l", "\xff\xfe", "1", "error"},
		{0, "l", "schlüssel-é-鍵", "1", "ok TOKEN 33"},
		{0, "r", "schlüssel-é-鍵", "TOKEN", "ok"},
		{0, "l", strings.Repeat("k", longKey), "1", "ok TOKEN 33"},
		{0, "r", strings.Repeat("k", longKey), "TOKEN", "ok"},
		{0, "e", "", "", "error"},
		{0, "w", "", "1", "error"},
		{0, "r", "", unknownToken, "error"},
		{0, "n", "", unknownToken, "error"},
		{0, "sl", "", "1 1", "error"},
		{0, "se", "", "1", "error"},
		{0, "sw", "", "1", "error"},
		{0, "sr", "", unknownToken, "error"},
		{0, "sn", "", unknownToken, "error"},
	}},
	{"numbers", []step{
		{0, "l", "k", "", "error"},
		{0, "l", "k", "x", "error"},
		{0, "l", "k", "1 x", "error"},
		{0, "l", "k", "-1", "error"},
		{0, "l", "k", "1.5", "error"},
		{0, "l", "k", "1e3", "error"},
		{0, "l", "k", "0x10", "error"},
		{0, "l", "k", "١", "error"},
		{0, "l", "k", "99999999999999999999", "error"},
		{0, "l", "k", "1 0", "error"},
		{0, "l", "k", "1 -1", "error"},
		{0, "l", "k", "1 2 3", "error"},
		{0, "e", "k", "0", "error"},
		{0, "e", "k", "-1", "error"},
		{0, "e", "k", "1 2", "error"},
		{0, "w", "k", "", "error"},
		{0, "w", "k", "-1", "error"},
		{0, "w", "k", "1 2", "error"},
		{0, "sl", "k", "1", "error"},
		{0, "sl", "k", "1 0", "error"},
		{0, "sl", "k", "1 65536", "error"},
		{0, "sl", "k", "1 -1", "error"},
		{0, "sl", "k", "1 1 0", "error"},
		{0, "sl", "k", "1 1 1 1", "error"},
		{0, "se", "k", "", "error"},
		{0, "se", "k", "0", "error"},
		{0, "se", "k", "65536", "error"},
		{0, "se", "k", "1 0", "error"},
		{0, "sw", "k", "x", "error"},
		{0, "n", "k", "TOKEN 0", "error"},
		{0, "n", "k", unknownToken + " x", "error"},
		{0, "sn", "k", unknownToken + " -1", "error"},
		{0, "l", "k", "0 9223372036854775807", "ok TOKEN 3600"}, // --max-ttl
		{0, "r", "k", "TOKEN", "ok"},
		{0, "l", "k", " 0  7 ", "ok TOKEN 7"},
		{0, "r", "k", " TOKEN ", "ok"},
		{0, "sl", "k", "0 65535", "ok TOKEN 33"},
		{0, "sr", "k", "TOKEN", "ok"},
	}},
	{"tokens", []step{
		{0, "r", "k", "", "error"},
		{0, "r", "k", "x", "error"},
		{0, "r", "k", unknownToken, "error"},
		{0, "r", "k", strings.ToUpper(unknownToken), "error"},
		{0, "n", "k", "", "error"},
		{0, "n", "k", unknownToken, "error"},
		{0, "sr", "k", unknownToken, "error"},
		{0, "sn", "k", unknownToken, "error"},
		{0, "l", "k", "1", "ok TOKEN 33"},
		{0, "r", "other", "TOKEN", "error"},
		{0, "sr", "k", "TOKEN", "error"}, // it is a lock's
		{0, "sn", "k", "TOKEN", "error"},
		{0, "r", "k", "TOKEN", "ok"},
		{0, "r", "k", "TOKEN", "error"},
		{0, "n", "k", "TOKEN", "error"},
	}},
	{"lock", []step{
		{0, "l", "k", "0", "ok TOKEN 33"},
		{1, "l", "k", "0", "timeout"},
		{1, "l", "k", "1", "timeout"},
		{0, "n", "k", "TOKEN", "ok 33|ok 32"},
		{0, "n", "k", "TOKEN 60", "ok 60|ok 59"},
		{1, "l", "k", "20 20", "later"},
		{0, "r", "k", "TOKEN", "ok"},
		{1, "", "", "", "ok TOKEN 20"},
		{0, "n", "k", "TOKEN 9", "ok 9|ok 8"}, // of another connection
		{0, "r", "k", "TOKEN", "ok"},
		{1, "l", "k", "0 1", "ok TOKEN 1"},
		{0, "l", "k", "20", "ok TOKEN 33"}, // when the lease has ended
	}},
	{"two phases", []step{
		{0, "w", "k", "1", "error_not_enqueued"},
		{0, "e", "k", "", "acquired TOKEN 33"},
		{0, "e", "k", "", "error_already_enqueued"},
		{0, "w", "k", "1", "ok TOKEN 33"},
		{1, "e", "k", "7", "queued"},
		{1, "e", "k", "7", "error_already_enqueued"},
		{1, "w", "k", "0", "timeout"},
		{1, "w", "k", "0", "error_not_enqueued"}, // it has left the line
		{1, "e", "k", " ", "queued"},
		{1, "w", "k", "20", "later"},
		{0, "r", "k", "TOKEN", "ok"},
		{1, "", "", "", "ok TOKEN 33"},
		{1, "w", "k", "1", "error_not_enqueued"},
		{0, "e", "k", "1", "queued"},
		{1, "r", "k", "TOKEN", "ok"},
		{1, "l", "k", "20", "ok TOKEN 33"}, // when the unseen lease has ended
		{0, "w", "k", "1", "error_lease_expired|error_not_enqueued"},
	}},
	{"semaphore", []step{
		{0, "sl", "k", "0 2 9", "ok TOKEN 9"},
		{1, "sl", "k", "0 2", "ok TOKEN 33"},
		{2, "sl", "k", "0 2", "timeout"},
		{2, "sl", "k", "0 3", "error_limit_mismatch"},
		{2, "l", "k", "0", "error_limit_mismatch"},
		{2, "e", "k", "", "error_limit_mismatch"},
		{2, "se", "k", "3", "error_limit_mismatch"},
		{2, "sw", "k", "0", "error_not_enqueued"},
		{2, "se", "k", "2", "queued"},
		{2, "se", "k", "2", "error_already_enqueued"},
		{2, "sw", "k", "20", "later"},
		{1, "sn", "k", "TOKEN 5", "ok 5|ok 4"},
		{1, "sr", "k", "TOKEN", "ok"},
		{2, "", "", "", "ok TOKEN 33"},
		{0, "sr", "k", "TOKEN", "ok"},
		{0, "se", "k", "2 4", "acquired TOKEN 4"},
	}},
	{"lock and semaphore", []step{
		{0, "l", "k", "0", "ok TOKEN 33"},
		{1, "sl", "k", "0 1", "error_limit_mismatch"},
		{1, "se", "k", "1", "error_limit_mismatch"},
	}},
	{"statistics", []step{
		{0, "sl", "s", "0 3", "ok TOKEN 33"},
		{0, "l", "k", "0", "ok TOKEN 33"},
		{1, "l", "k", "20", "later"},
		{0, "stats", "", "", `ok \{"connections":\d+,"locks":\[\{"key":"k","owner_conn_id":\d+,"lease_expires_in_s":\d+(\.\d+)?,"waiters":1\}\],` +
			`"semaphores":\[\{"key":"s","limit":3,"holders":1,"waiters":0\}\],"idle_locks":\[.*\],"idle_semaphores":\[.*\]\}`},
		{0, "r", "k", "TOKEN", "ok"},
		{1, "", "", "", "ok TOKEN 33"},
	}},
}

func TestProtocol(t *testing.T) {
	store := openStore(t, kvslots.Config{})
	f := openFixture(t, store)
	for _, c := range protocol {
		t.Run(c.name, func(t *testing.T) { runSteps(t, f, c.steps) })
		f.nothingHeld(t)
	}
}

func runSteps(t *testing.T, f *fixture, steps []step) {
	t.Helper()
	connections := map[int]*client{}
	defer func() {
		for _, c := range connections {
			c.Close()
		}
	}()
	token := "TOKEN"
	for _, s := range steps {
		c := connections[s.on]
		if c == nil {
			c = f.dial(t)
			connections[s.on] = c
		}
		if s.command != "" || s.reply == "error" {
			c.send(t, s.command+"\n"+s.key+"\n"+strings.ReplaceAll(s.args, "TOKEN", token)+"\n")
		}
		if s.reply == "later" {
			f.waiting(t, 1)
			continue
		}
		got := c.reply(t)
		if words := strings.Fields(got); len(words) == 3 && len(words[1]) == 32 {
			token = words[1]
		}
		if !matches(got, strings.ReplaceAll(s.reply, "TOKEN", aToken)) {
			t.Errorf("connection %d: %q %q %q: %q, want %q", s.on, s.command, s.key, s.args, got, s.reply)
		}
	}
}

// The replies of /v1's errors, those at caps among them, and of others.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err   error
		reply string
	}{
		{kvslots.ErrMaxLocks, "error_max_locks"},
		{kvslots.ErrMaxLocksPerSession, "error_max_locks"},
		{kvslots.ErrMaxLocksPerOrigin, "error_max_locks"},
		{kvslots.ErrMaxWaiters, "error_max_waiters"},
		{kvslots.ErrLimitMismatch, "error_limit_mismatch"},
		{kvslots.ErrAlreadyEnqueued, "error_already_enqueued"},
		{kvslots.ErrNotEnqueued, "error_not_enqueued"},
		{kvslots.ErrLeaseExpired, "error_lease_expired"},
		{kvslots.ErrMaxSessions, "error"},
		{kvslots.ErrMaxSessionsPerOrigin, "error"},
		{kvslots.ErrMaxTombstones, "error"},
		{kvslots.ErrUnavailable, "error"},
		{kvslots.ErrFull, "error"},
		{kvslots.ErrClosed, "error_draining"},
		{kvslots.ErrSessionGone, "error"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			f := openFixture(t, failing{gatewaytest.Failing{Err: c.err}, openStore(t, kvslots.Config{})})
			closes := c.reply == "error_draining" || c.err == kvslots.ErrSessionGone
			for _, command := range []string{"l\nk\n1\n", "e\nk\n\n", "sl\nk\n1 1\n", "se\nk\n1\n"} {
				conn := f.dial(t)
				conn.send(t, command)
				if got := conn.reply(t); got != c.reply {
					t.Errorf("%q: %q, want %q", command, got, c.reply)
				}
				want := "ok"
				if closes {
					want = "(closed)"
				} else {
					conn.send(t, "ping\n\n\n")
				}
				if got := conn.reply(t); got != want {
					t.Errorf("%q, and then: %q, want %q", command, got, want)
				}
				conn.Close()
			}
		})
	}
}

// The caps of the operator.
func TestCaps(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{MaxLocks: 2, MaxWaiters: 1, MaxSessions: 3}))
	a, b, c := f.dial(t), f.dial(t), f.dial(t)
	a.want(t, "l", "one", "0", "ok "+aToken+" 33")
	a.want(t, "l", "two", "0", "ok "+aToken+" 33")
	a.want(t, "l", "three", "0", "error_max_locks")
	a.want(t, "se", "three", "5", "error_max_locks")
	b.want(t, "e", "one", "", "queued")
	c.want(t, "l", "one", "0", "timeout")
	c.want(t, "l", "one", "1", "error_max_waiters")
	c.want(t, "e", "one", "", "error_max_waiters")
	d := f.dial(t)
	d.want(t, "l", "one", "0", "error")
	d.want(t, "ping", "", "", "ok") // which needs no session
}

func TestWaitLimits(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) {
		c.Lending.Waits.Limit(waitLimits(1))
	})
	a, b, c := f.dial(t), f.dial(t), f.dial(t)
	a.take(t, "l", "k", "0")
	b.send(t, "l\nk\n20\n")
	f.waiting(t, 1)
	c.want(t, "l", "k", "20", "error_max_waiters")
	c.want(t, "l", "k", "0", "timeout")
}
