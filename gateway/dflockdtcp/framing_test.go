package dflockdtcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

func TestFraming(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	tooLong := strings.Repeat("x", 257)
	for _, c := range []struct {
		name, sent string
		replies    []string
	}{
		{"carriage returns", "ping\r\n_\r\n_\r\nping\n_\r\n_\n", []string{"ok", "ok"}},
		{"only one of them", "ping\r\r\n_\n_\n", []string{"error"}},
		{"longest lines", "ping\n" + tooLong[1:] + "\r\n" + tooLong[1:] + "\n", []string{"ok"}},
		{"long command", "ping\n_\n_\n" + tooLong + "\n_\n_\n", []string{"ok", "error", "(closed)"}},
		{"long key", "ping\n" + tooLong + "\n_\n", []string{"error", "(closed)"}},
		{"long arguments", "ping\n_\n" + tooLong + "\n", []string{"error", "(closed)"}},
		{"without an end", "ping\n_\n" + strings.Repeat("x", 258), []string{"error", "(closed)"}},
		{"carriage return in a long line", "ping\n_\n" + tooLong[1:] + "\rx", []string{"error", "(closed)"}},
		{"a mebibyte", strings.Repeat("x", 1<<20), []string{"error", "(closed)"}},
		{"a token of 64 KiB", "auth\n_\n" + strings.Repeat("x", 64<<10) + "\nping\n\n\n", []string{"error", "ok"}},
		{"a longer token", "auth\n_\n" + strings.Repeat("x", 64<<10+1), []string{"error", "(closed)"}},
		{"many lines", "ping" + strings.Repeat("\n", 3<<12), nil},
		{"wrong, and then right", "ping\n_\n_\nx\ny\nz\nping\n_\n_\n", []string{"ok", "error", "ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := f.dial(t)
			go conn.Write([]byte(c.sent))
			for i, want := range c.replies {
				if got := conn.reply(t); got != want {
					t.Errorf("reply %d: %q, want %q", i, got, want)
				}
			}
			if c.replies == nil {
				for i := range strings.Count(c.sent, "\n") / 3 {
					if got := conn.reply(t); got != "error" && (i > 0 || got != "ok") {
						t.Fatal(got)
					}
				}
			}
			conn.Close()
		})
	}
	f.nothingHeld(t)
}

// A request may arrive in parts, which may split characters.
func TestPartsOfRequests(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	c := f.dial(t)
	for _, b := range []byte("l\r\nschlüssel-鍵\n0 \n") {
		c.send(t, string([]byte{b}))
	}
	words := strings.Fields(c.reply(t))
	if len(words) != 3 {
		t.Fatal(words)
	}
	other := f.dial(t)
	other.want(t, "r", "schlüssel-鍵", words[1], "ok")
}

func TestPipelining(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	c := f.dial(t)
	const n = 2000 // 40 KiB
	var requests strings.Builder
	for i := range n {
		fmt.Fprintf(&requests, "sl\nk%d\n0 %d\n", i%7, i%7+1)
	}
	go c.Write([]byte(requests.String()))
	for i := range n {
		want := "ok " + aToken + " 33"
		if i/7 > i%7 { // all slots are taken
			want = "timeout"
		}
		if got := c.reply(t); !matches(got, want) {
			t.Fatalf("reply %d: %q, want %q", i, got, want)
		}
	}
}

// What is behind a request that waits is answered after it, if it is not too much.
func TestBehindAWait(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	holder := f.dial(t)
	token := holder.take(t, "l", "k", "0")
	c := f.dial(t)
	behind := strings.Repeat("ping\n_\n_\n", 4096/9)
	c.send(t, "l\nk\n60\n"+behind)
	f.waiting(t, 1)
	tooMuch := f.dial(t)
	tooMuch.send(t, "l\nk\n60\n")
	f.waiting(t, 2)
	tooMuch.send(t, behind+behind)
	if got := tooMuch.reply(t); got != "(closed)" {
		t.Errorf("with too much behind a wait: %q", got)
	}
	f.waiting(t, 1)
	holder.want(t, "r", "k", token, "ok")
	if got := c.reply(t); !matches(got, "ok "+aToken+" 33") {
		t.Errorf("the wait: %q", got)
	}
	for range 4096 / 9 {
		if got := c.reply(t); got != "ok" {
			t.Fatalf("behind the wait: %q", got)
		}
	}
}

func TestAuth(t *testing.T) {
	tokens := ops.NewTokens("correct-token", "old-token")
	f := openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) { c.Tokens = tokens })
	for _, c := range []struct {
		name, command, key, args string
		replies                  []string
	}{
		{"right", "auth", "_", "correct-token", []string{"ok", "ok"}},
		{"another", "auth", "", " old-token ", []string{"ok", "ok"}},
		{"wrong", "auth", "_", "correct-tokem", []string{"error_auth", "(closed)"}},
		{"none", "auth", "_", "", []string{"error_auth", "(closed)"}},
		{"long", "auth", "_", strings.Repeat("x", 64<<10), []string{"error_auth", "(closed)"}},
		{"not first", "ping", "_", "_", []string{"error_auth", "(closed)"}},
		{"unknown", "x", "_", "_", []string{"error_auth", "(closed)"}},
		{"lock", "l", "k", "1", []string{"error_auth", "(closed)"}},
		{"statistics", "stats", "_", "_", []string{"error_auth", "(closed)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := f.dial(t)
			began := time.Now() // before the send, since the server's pause may begin before send returns
			conn.send(t, c.command+"\n"+c.key+"\n"+c.args+"\nping\n_\n_\n")
			for i, want := range c.replies {
				if got := conn.reply(t); got != want {
					t.Errorf("reply %d: %q, want %q", i, got, want)
				}
			}
			if took := time.Since(began); c.replies[1] == "(closed)" && took < 100*time.Millisecond {
				t.Errorf("closed after %v", took)
			}
		})
	}
	conn := f.dial(t)
	conn.want(t, "auth", "_", "correct-token", "ok")
	tokens.Replace(ops.Token{Token: "next-token"})
	conn.want(t, "ping", "_", "_", "ok")
	conn.want(t, "auth", "_", "next-token", "error") // it has been admitted
	f.dial(t).want(t, "auth", "_", "correct-token", "error_auth")
	f.dial(t).want(t, "auth", "_", "next-token", "ok")
}
