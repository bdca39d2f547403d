package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Answers contain leases. A client with an nkey receives them in an inbox to which no
// other client may subscribe.
func TestOwnInbox(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		from NATS
		want string
	}{
		{"nkey", NATS{nkey: file, ownInbox: true}, "_INBOX_" + public},
		{"nkey and a wish", NATS{nkey: file, ownInbox: true, inbox: "mine"}, "mine"},
		{"nkey of serve", NATS{nkey: file}, ""},
		{"neither", NATS{ownInbox: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			options, err := c.from.Options()
			if err != nil {
				t.Fatal(err)
			}
			var got nats.Options
			for _, option := range options {
				if err := option(&got); err != nil {
					t.Fatal(err)
				}
			}
			if got.InboxPrefix != c.want {
				t.Errorf("got %q, want %q", got.InboxPrefix, c.want)
			}
		})
	}
}
