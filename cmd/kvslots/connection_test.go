package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"
)

// newNkey makes a user's nkey, with its seed in a file.
func newNkey(t *testing.T) (pair nkeys.KeyPair, public, file string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err = pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return pair, public, file
}

// Answers contain leases. A client with an nkey receives them in an inbox to which no
// other client may subscribe.
func TestOwnInbox(t *testing.T) {
	_, public, file := newNkey(t)
	for _, c := range []struct {
		name string
		from natsConnection
		want string
	}{
		{"nkey", natsConnection{nkey: file}, "_INBOX_" + public},
		{"nkey and a wish", natsConnection{nkey: file, inbox: "mine"}, "mine"},
		{"neither", natsConnection{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.from.ownInbox(); err != nil || c.from.inbox != c.want {
				t.Errorf("got %q, %v; want %q", c.from.inbox, err, c.want)
			}
		})
	}
}
