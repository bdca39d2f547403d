package wire

import (
	"errors"
	"net/http"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// received is a request with a body. With a URL it is one over HTTP.
type received struct {
	url    map[string]string
	header http.Header
	body   string
	fails  error // of reading the body
}

func (r *received) Param(name string) (string, bool) { return r.url[name], r.url != nil }

func (r *received) Header(name string) []string { return r.header.Values(name) }

func (r *received) Body() ([]byte, error) { return []byte(r.body), r.fails }

func ofSession(ids ...string) http.Header { return http.Header{SessionHeader: ids} }

// The parameters over HTTP and over NATS are the same ones.
func TestRead(t *testing.T) {
	const pool = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
	for _, c := range []struct {
		name       string
		route      Route
		http, nats received
	}{
		{"borrow", Borrow,
			received{url: map[string]string{"id": pool}, body: `{"ttl":3,"wait":4}`},
			received{body: `{"id":"` + pool + `","ttl":3,"wait":4}`}},
		{"inspect", InspectPool,
			received{url: map[string]string{"id": pool}, fails: ErrTooSlow}, // there is no body to read
			received{body: `{"id":"` + pool + `"}`}},
		{"create a session", CreateSession, received{url: map[string]string{}}, received{}},
		{"ping", PingSession, received{url: map[string]string{"id": "s"}}, received{body: `{"session":"s"}`}},
		{"acquire", ResourceRoute(kvslots.KindSemaphore, subjects.Acquire),
			received{url: map[string]string{"key": "k"}, header: ofSession("s"), body: `{"acquire_timeout_s":1,"limit":3}`},
			received{body: `{"session":"s","key":"k","acquire_timeout_s":1,"limit":3}`}},
		{"enqueue", ResourceRoute(kvslots.KindLock, subjects.Enqueue),
			received{url: map[string]string{"key": "k"}, header: ofSession("s")},
			received{body: `{"session":"s","key":"k"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var overHTTP, overNATS Params
			if err := errors.Join(c.route.Read(&c.http, &overHTTP), c.route.Read(&c.nats, &overNATS)); err != nil || overHTTP != overNATS {
				t.Errorf("HTTP %+v\nNATS %+v, %v", overHTTP, overNATS, err)
			}
		})
	}
	var page Params
	if err := ReadStats.Read(&received{url: map[string]string{"pools_after": "p"}, fails: ErrTooSlow}, &page); err != nil || page.PoolsAfter != "p" {
		t.Errorf("%+v, %v", page, err)
	}
}

// Of several errors in a request the answer has the first one: over HTTP that of a pool's
// id, which needs no body, then those of the body's syntax, of the session, of the key, and
// of the other fields.
func TestReadOrder(t *testing.T) {
	acquire := ResourceRoute(kvslots.KindLock, subjects.Acquire)
	noPool, noKey := map[string]string{"id": "x"}, map[string]string{"key": "a b"}
	for _, c := range []struct {
		name  string
		route Route
		from  received
		want  string
	}{
		{"pool", Borrow, received{url: noPool, body: `x`, fails: ErrTooSlow}, idText},
		{"pool over NATS", Borrow, received{body: `{"id":"x"}`}, idText},
		{"syntax over NATS", Borrow, received{body: `{"id":"x"`}, malformed},
		{"too slow", acquire, received{url: noKey, fails: ErrTooSlow}, ErrTooSlow.Error()},
		{"syntax", acquire, received{url: noKey, body: `{`}, malformed},
		{"no session", acquire, received{url: noKey, body: `{}`}, "header " + sessionHeaderText},
		{"empty session", acquire, received{url: noKey, header: ofSession(""), body: `{}`}, "header " + sessionHeaderText},
		{"two sessions", acquire, received{url: noKey, header: ofSession("s", "s"), body: `{}`}, "header " + sessionHeaderText},
		{"no session over NATS", acquire, received{header: ofSession("s"), body: `{"key":"a b"}`}, sessionText},
		{"key", acquire, received{url: noKey, header: ofSession("s"), body: `{}`}, keyText},
		{"key over NATS", acquire, received{body: `{"session":"s","key":"a b"}`}, keyText},
		{"field", acquire, received{url: map[string]string{"key": "k"}, header: ofSession("s"), body: `{}`}, "acquire_timeout_s" + secondsText},
	} {
		t.Run(c.name, func(t *testing.T) { checkText(t, c.route.Read(&c.from, new(Params)), c.want) })
	}
}

const sessionHeaderText = SessionHeader + " must be the id of a session"
