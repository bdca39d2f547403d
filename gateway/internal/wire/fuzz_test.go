package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

func FuzzParseRegister(f *testing.F) {
	seed(f, `{"count":4}`, `{"count":-1}`, `{"count":1e3}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := ParseRegister(body)
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
		got, err := ParseBorrow(body)
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
		if _, err := ParseReturn(body); err != nil {
			checkSafe(t, err, leaseText)
		}
	})
}

func FuzzParseRenew(f *testing.F) {
	seed(f, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34","ttl":30}`, `{"lease":"x","ttl":1.5}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := ParseRenew(body)
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
		if _, err := ParsePoolID(body); err != nil {
			checkSafe(t, err, idText)
		}
	})
}

func seed(f *testing.F, bodies ...string) {
	f.Helper()
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	for _, c := range notObjects {
		if len(c.body) < 1000 { // large ones only slow the search down
			f.Add([]byte(c.body))
		}
	}
}

// checkSafe wants one of the few texts that there are, so that nothing of the
// body can be in it, and a status that blames the client.
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
