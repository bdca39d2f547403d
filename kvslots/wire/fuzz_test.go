package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

func FuzzParseRegister(f *testing.F) {
	seed(f, `{"count":4}`, `{"count":-1}`, `{"count":1e3}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parsed(string(body), RegisterPool.body)
		if err != nil {
			checkSafe(t, err, countText)
		} else if got.Count < 0 || got.Count > kvslots.MaxCount {
			t.Errorf("count %d", got.Count)
		}
	})
}

func FuzzParseBorrow(f *testing.F) {
	seed(f, `{"ttl":30,"wait":25}`, `{"ttl":99999999999999999999}`, `{"ttl":1.5}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parsed(string(body), Borrow.body)
		switch {
		case err != nil:
			checkSafe(t, err, ttlText, waitText)
		case got.TTL < time.Second || got.TTL%time.Second != 0 || got.Wait < 0 || got.Wait%time.Second != 0:
			t.Errorf("ttl %v, wait %v", got.TTL, got.Wait)
		}
	})
}

func FuzzParseReturn(f *testing.F) {
	seed(f, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"}`, `{"lease":"urn:uuid:3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := parsed(string(body), Return.body); err != nil {
			checkSafe(t, err, leaseText)
		}
	})
}

func FuzzParseRenew(f *testing.F) {
	seed(f, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34","ttl":30}`, `{"lease":"x","ttl":1.5}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parsed(string(body), RenewLease.body)
		switch {
		case err != nil:
			checkSafe(t, err, leaseText, ttlText)
		case got.TTL < time.Second || got.TTL%time.Second != 0:
			t.Errorf("ttl %v", got.TTL)
		}
	})
}

func FuzzParsePoolID(f *testing.F) {
	seed(f, `{"id":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"}`, `{"id":null}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := parsed(string(body), laxly(), idField); err != nil {
			checkSafe(t, err, idText)
		}
	})
}

// FuzzStrict parses a body with every strict parser.
func FuzzStrict(f *testing.F) {
	seed(f, `{"acquire_timeout_s":1,"lease_ttl_s":0}`, `{"acquire_timeout_s":1,"limit":3}`, `{"timeout_s":-1}`,
		`{"token":"`+testToken+`"}`, `{"token":"`+testToken+`","lease_ttl_s":99999999999999999999}`,
		`{"session":"s","key":"k"}`, `{"label":"\u202e","lease_ttl_s":1}`, `{"key":"\ud800","key":""}`)
	texts := []string{
		"acquire_timeout_s" + secondsText, "timeout_s" + secondsText, "lease_ttl_s" + secondsText, "idle_timeout_s" + secondsText,
		labelText, limitText, tokenText, keyText, sessionText, emptyText,
	}
	for _, name := range []string{"acquire_timeout_s", "timeout_s", "lease_ttl_s", "limit", "uncounted", "token", "key", "session", "label", "idle_timeout_s"} {
		texts = append(texts, name+" must be given once")
	}
	for _, names := range []string{
		"acquire_timeout_s, lease_ttl_s, label, uncounted", "acquire_timeout_s, limit, lease_ttl_s, label, uncounted", "lease_ttl_s, label", "limit, lease_ttl_s, label", "label, idle_timeout_s",
		"timeout_s", "token", "token, lease_ttl_s",
	} {
		texts = append(texts, onlyText+names)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, parts := range strictBodiesOf {
			p, err := parsed(string(body), parts.body, parts.target...)
			if err != nil {
				t.Log(name)
				checkSafe(t, err, texts...)
			} else if p.TTL < 0 || p.TTL%time.Second != 0 || p.Wait < 0 || p.Wait%time.Second != 0 || p.Limit < 0 || p.Limit > kvslots.MaxSemaphoreLimit ||
				parts.target != nil && CheckKey(p.Key) != nil {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
}

var strictBodiesOf = map[string]struct {
	body   *body
	target []*field
}{
	"acquire a lock":          {grantBodies[kvslots.KindLock][subjects.Acquire], nil},
	"acquire a semaphore":     {grantBodies[kvslots.KindSemaphore][subjects.Acquire], nil},
	"enqueue for a lock":      {grantBodies[kvslots.KindLock][subjects.Enqueue], nil},
	"enqueue for a semaphore": {grantBodies[kvslots.KindSemaphore][subjects.Enqueue], nil},
	"wait":                    {grantBodies[kvslots.KindLock][subjects.Wait], nil},
	"release":                 {grantBodies[kvslots.KindLock][subjects.Release], nil},
	"renew":                   {grantBodies[kvslots.KindLock][subjects.Renew], nil},
	"create a session":        {CreateSession.body, nil},
	"nothing":                 {PingSession.body, nil},
	"session and key":         {strictly(), targetFields[aLock]},
}

func seed(f *testing.F, bodies ...string) {
	f.Helper()
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	for _, c := range notObjects {
		if len(c.body) < 1000 { // larger bodies only slow the fuzzer down
			f.Add([]byte(c.body))
		}
	}
}

// checkSafe fails unless the error has one of the known texts, which contain nothing of
// the body, and the status of a client's error.
func checkSafe(t *testing.T, err error, texts ...string) {
	t.Helper()
	texts = append(texts, malformed, tooLarge)
	for _, text := range texts {
		if err.Error() == text {
			if code := StatusOf(err).Code; code != 400 && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%q has status %d", text, code)
			}
			return
		}
	}
	t.Errorf("unknown error text %q", err)
}
