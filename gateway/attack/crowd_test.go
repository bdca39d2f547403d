package attack

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// from is the header by which a trusted proxy says that a client has an address.
const from = "X-Forwarded-For"

func behindProxy(c *config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// A client that takes its locks out of service uses up its own share, and no other's.
func TestNamesForEver(t *testing.T) {
	const share = 10
	d := open(t, func(c *config) {
		behindProxy(c)
		c.store.MaxLocks, c.store.MaxLocksPerOrigin = 4*share, share
	})
	take := func(client, key string) (code int) {
		var session wire.Session
		d.decode(t, d.want(t, "POST", "/v1/sessions", "", 200, "", from, client), &session)
		code, _, _ = d.Do(t, "POST", "/v1/locks/"+key, `{"acquire_timeout_s":0}`, wire.SessionHeader, session.ID, from, client)
		return code
	}
	for i := range 2 * share {
		key := fmt.Sprint("flood-", i)
		want := http.StatusOK
		if i >= share {
			want = http.StatusTooManyRequests
		}
		if code := take("198.51.100.1", key); code != want {
			t.Fatalf("lock %d: %d, want %d", i, code, want)
		}
		d.Do(t, "PUT", "/v1/locks/"+key+"/pause", `{"out":true}`, from, "198.51.100.1")
	}
	if code := take("198.51.100.2", "honest"); code != http.StatusOK {
		t.Errorf("another client is answered %d", code)
	}
}
