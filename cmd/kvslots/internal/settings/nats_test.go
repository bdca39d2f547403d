package settings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Answers contain leases. A client with an nkey receives them in an inbox to which no
// other client may subscribe.
func TestOwnInbox(t *testing.T) {
	pair, err := nkeys.CreateUser()
	kvslotstest.Must(t, err)
	public, err := pair.PublicKey()
	kvslotstest.Must(t, err)
	seed, err := pair.Seed()
	kvslotstest.Must(t, err)
	file := filepath.Join(t.TempDir(), "seed")
	kvslotstest.Must(t, os.WriteFile(file, seed, 0o600))
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
			kvslotstest.Must(t, err)
			var got nats.Options
			for _, option := range options {
				kvslotstest.Must(t, option(&got))
			}
			if got.InboxPrefix != c.want {
				t.Errorf("got %q, want %q", got.InboxPrefix, c.want)
			}
		})
	}
}

// Secrets of Kubernetes, and files that a shell has read, often end with a newline.
func TestURLsMayHaveWhiteSpaceAround(t *testing.T) {
	if got := splitURLs(" http://a:1,\thttp://b:2\r\n"); !slices.Equal(got, []string{"http://a:1", "http://b:2"}) {
		t.Errorf("%q", got)
	}
}
