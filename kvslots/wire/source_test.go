package wire

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// overHTTP returns a request over HTTP.
func overHTTP(param string, header http.Header, body string) *Source {
	return &Source{HTTP: true, Param: param, Header: header, Stream: strings.NewReader(body)}
}

// tooSlow returns a request over HTTP whose body does not arrive in time.
func tooSlow(param string) *Source {
	return &Source{HTTP: true, Param: param, Header: http.Header{}, Stream: iotest.ErrReader(os.ErrDeadlineExceeded)}
}

// overNATS returns a request over NATS, whose headers do not count.
func overNATS(body string) *Source { return &Source{Body: []byte(body), Header: ofSession("other")} }

func ofPool(ids ...string) http.Header { return http.Header{PoolHeader: ids} }

func ofSession(ids ...string) http.Header { return http.Header{SessionHeader: ids} }

// The parameters over HTTP and over NATS are the same ones.
func TestRead(t *testing.T) {
	const pool = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
	for _, c := range []struct {
		name       string
		route      Route
		http, nats *Source
	}{
		{"borrow", Borrow, overHTTP(pool, nil, `{"ttl":3,"wait":4}`), overNATS(`{"id":"` + pool + `","ttl":3,"wait":4}`)},
		{"borrow, id in a header", Borrow, overHTTP("self", ofPool(pool), `{"ttl":3,"wait":4}`), overNATS(`{"id":"` + pool + `","ttl":3,"wait":4}`)},
		{"borrow, id in both", Borrow, overHTTP(pool, ofPool("other"), `{"ttl":3,"wait":4}`), overNATS(`{"id":"` + pool + `","ttl":3,"wait":4}`)},
		{"inspect", InspectPool, tooSlow(pool), overNATS(`{"id":"` + pool + `"}`)}, // over HTTP there is no body to read
		{"create a session", CreateSession, overHTTP("", nil, ""), overNATS("")},
		{"ping", PingSession, overHTTP("s", nil, "{}"), overNATS(`{"session":"s"}`)},
		{"acquire", ResourceRoute(kvslots.KindSemaphore, subjects.Acquire),
			overHTTP("k", ofSession("s"), `{"acquire_timeout_s":1,"limit":3}`),
			overNATS(`{"session":"s","key":"k","acquire_timeout_s":1,"limit":3}`)},
		{"enqueue", ResourceRoute(kvslots.KindLock, subjects.Enqueue), overHTTP("k", ofSession("s"), ""), overNATS(`{"session":"s","key":"k"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, want Params
			if err := errors.Join(c.route.Read(c.http, &got), c.route.Read(c.nats, &want)); err != nil || got != want {
				t.Errorf("HTTP %+v\nNATS %+v, %v", got, want, err)
			}
		})
	}
	var p Params
	if err := ReadStats.Read(&Source{HTTP: true, Query: "pools_after=p"}, &p); err != nil || p.PoolsAfter != "p" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, from := range []*Source{overHTTP("", http.Header{AuthorizationHeader: {"a"}}, "x"), {Body: []byte("x"), Header: http.Header{AuthorizationHeader: {"a"}}}} {
		if err := CallFunction.Read(from, &p); err != nil || string(p.Envelope.Body) != "x" || p.Envelope.Authorization != "a" {
			t.Errorf("%+v, %v", p.Envelope, err)
		}
	}
}

// Of several errors in a request the answer has the first one: over HTTP that of a pool's
// id, which needs no body, then those of the body's syntax, of the session, of the key, and
// of the other fields.
func TestReadOrder(t *testing.T) {
	const (
		pool           = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
		poolHeaderText = "header " + PoolHeader + " must be a canonical UUID of 36 characters"
		noSession      = "header " + SessionHeader + " must be the id of a session"
	)
	acquire := ResourceRoute(kvslots.KindLock, subjects.Acquire)
	for _, c := range []struct {
		name  string
		route Route
		from  *Source
		want  string
	}{
		{"pool", Borrow, tooSlow("x"), idText},
		{"no pool in a header", Borrow, tooSlow("self"), poolHeaderText},
		{"pool in a header", Borrow, overHTTP("self", ofPool("x"), ""), poolHeaderText},
		{"two pools in headers", Borrow, overHTTP("self", ofPool(pool, pool), ""), poolHeaderText},
		{"no pool in a header over NATS", Borrow, &Source{Body: []byte(`{"id":"self"}`), Header: ofPool(pool)}, idText},
		{"pool over NATS", Borrow, overNATS(`{"id":"x"}`), idText},
		{"syntax over NATS", Borrow, overNATS(`{"id":"x"`), malformed},
		{"too slow", acquire, tooSlow("a b"), ErrTooSlow.Error()},
		{"too slow for a function", CallFunction, tooSlow(""), ErrTooSlow.Error()},
		{"truncated", acquire, &Source{HTTP: true, Stream: iotest.ErrReader(io.ErrUnexpectedEOF)}, malformed},
		{"syntax", acquire, overHTTP("a b", nil, `{`), malformed},
		{"no session", acquire, overHTTP("a b", nil, `{}`), noSession},
		{"empty session", acquire, overHTTP("a b", ofSession(""), `{}`), noSession},
		{"two sessions", acquire, overHTTP("a b", ofSession("s", "s"), `{}`), noSession},
		{"no session over NATS", acquire, overNATS(`{"key":"a b"}`), sessionText},
		{"key", acquire, overHTTP("a b", ofSession("s"), `{}`), keyText},
		{"key over NATS", acquire, overNATS(`{"session":"s","key":"a b"}`), keyText},
		{"field", acquire, overHTTP("k", ofSession("s"), `{}`), "acquire_timeout_s" + secondsText},
	} {
		t.Run(c.name, func(t *testing.T) { checkText(t, c.route.Read(c.from, new(Params)), c.want) })
	}
}
