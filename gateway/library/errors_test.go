package library_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
)

func TestStoreErrors(t *testing.T) {
	const detail = "nats: timeout at 10.0.0.7"
	for _, c := range []struct {
		name   string
		err    error
		code   int
		answer string
		logged bool
	}{
		{"unavailable", kvslots.ErrUnavailable, 502, `{"error":"the store did not answer; safe to retry"}`, true},
		{"closed", kvslots.ErrClosed, 503, `{"error":"draining"}`, false},
		{"no pool", kvslots.ErrNoPool, 404, `{"error":"no such pool"}`, false},
		{"unknown", errors.New("surprise"), 500, `{"error":"internal error"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openFixture(t, gatewaytest.Failing{Err: fmt.Errorf("%s: %w", detail, c.err)})
			d.want(t, "GET", "/l/"+poolA, "", c.code, c.answer)
			if c.err != kvslots.ErrNoPool { // which these need not
				d.want(t, "PUT", "/l/"+poolA, `{"count":1}`, c.code, c.answer)
				d.want(t, "DELETE", "/l/"+poolA, "", c.code, c.answer)
			}
			d.want(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":1}`, c.code, c.answer)
			d.want(t, "POST", "/l/"+poolA+"/return", `{"lease":"`+unknownLease+`"}`, c.code, c.answer)
			d.want(t, "POST", "/l/"+poolA+"/renew", `{"lease":"`+unknownLease+`","ttl":1}`, c.code, c.answer)
			if got := strings.Count(d.Logs.String(), detail); (got > 0) != c.logged {
				t.Errorf("the detail was logged %d times:\n%s", got, d.Logs)
			}
			_, _, header := d.Do(t, "GET", "/l/"+poolA, "")
			if got, want := header.Get("Retry-After"), map[bool]string{true: "1"}[c.code == 503]; got != want {
				t.Errorf("Retry-After %q, want %q", got, want)
			}
		})
	}
}

// A full store is not one that does not answer: only the operator can help.
func TestFullStore(t *testing.T) {
	d := openFixture(t, gatewaytest.Failing{Err: fmt.Errorf("%w: 1 MiB is free", kvslots.ErrFull)})
	const answer = `{"error":"the store has no room for new entries"}`
	d.want(t, "PUT", "/l/"+poolA, `{"count":1}`, 507, answer)
	d.want(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":1}`, 507, answer)
	if !strings.Contains(d.Logs.String(), "1 MiB is free") {
		t.Errorf("the reason is not in the logs:\n%s", d.Logs)
	}
	if _, _, header := d.Do(t, "PUT", "/l/"+poolA, `{"count":1}`); header.Get("Kvslots-Error") != "store_full" {
		t.Errorf("header %v", header)
	}
}
