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
		got, err := parsed(string(body), params(RegisterPool.read))
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
		got, err := parsed(string(body), params(Borrow.read))
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
		if _, err := parsed(string(body), params(Return.read)); err != nil {
			checkSafe(t, err, leaseText)
		}
	})
}

func FuzzParseRenew(f *testing.F) {
	seed(f, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34","ttl":30}`, `{"lease":"x","ttl":1.5}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parsed(string(body), params(RenewLease.read))
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
		if _, err := parsed(string(body), (*Fields).Pool); err != nil {
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
		for name, read := range strictReaders {
			fields, err := Parse(body)
			if err == nil {
				err = read(t, &fields)
			}
			if err != nil {
				t.Log(name)
				checkSafe(t, err, texts...)
			}
		}
	})
}

var strictReaders = map[string]func(t *testing.T, f *Fields) error{
	"acquire a lock": func(t *testing.T, f *Fields) error {
		return checkClaim(t)(granted(kvslots.KindLock, subjects.Acquire)(f))
	},
	"acquire a semaphore": func(t *testing.T, f *Fields) error {
		return checkClaim(t)(granted(kvslots.KindSemaphore, subjects.Acquire)(f))
	},
	"enqueue for a lock": func(t *testing.T, f *Fields) error {
		return checkClaim(t)(granted(kvslots.KindLock, subjects.Enqueue)(f))
	},
	"enqueue for a semaphore": func(t *testing.T, f *Fields) error {
		return checkClaim(t)(granted(kvslots.KindSemaphore, subjects.Enqueue)(f))
	},
	"wait": func(t *testing.T, f *Fields) error {
		p, err := params(grantReaders[kvslots.KindLock][subjects.Wait])(f)
		return checkClaim(t)(GrantParams{Wait: p.Wait, Limit: 1}, err)
	},
	"release": func(_ *testing.T, f *Fields) error {
		return grantReaders[kvslots.KindLock][subjects.Release](*f, &Params{})
	},
	"renew": func(t *testing.T, f *Fields) error {
		p, err := params(grantReaders[kvslots.KindLock][subjects.Renew])(f)
		return checkClaim(t)(GrantParams{TTL: p.TTL, Limit: 1}, err)
	},
	"create a session": func(_ *testing.T, f *Fields) error { return CreateSession.read(*f, &Params{}) },
	"nothing":          func(_ *testing.T, f *Fields) error { return PingSession.read(*f, nil) },
	"session and key": func(t *testing.T, f *Fields) error {
		_, err := f.Session()
		key, wrong := f.Key()
		if wrong == nil && CheckKey(key) != nil {
			t.Errorf("key %q", key)
		}
		if err == nil {
			err = wrong
		}
		return err
	},
}

func checkClaim(t *testing.T) func(c GrantParams, err error) error {
	return func(c GrantParams, err error) error {
		if err == nil && (c.TTL < 0 || c.TTL%time.Second != 0 || c.Wait < 0 || c.Wait%time.Second != 0 || c.Limit < 1 || c.Limit > kvslots.MaxSemaphoreLimit) {
			t.Errorf("got %+v", c)
		}
		return err
	}
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
