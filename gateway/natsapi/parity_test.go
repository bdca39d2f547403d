package natsapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const poolB = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a02"

// parityCases are requests in their order, without the id, which each transport adds.
// LEASE stands for the latest lease.
var parityCases = []struct{ name, op, id, body string }{
	{"unregistered", "inspect", poolA, ``},
	{"borrow unregistered", "borrow", poolA, `{"ttl":30}`},
	{"return unregistered", "return", poolA, `{"lease":"` + unknownLease + `"}`},
	{"delete unregistered", "delete", poolA, ``},
	{"register", "register", poolA, `{"count":1}`},
	{"register again", "register", poolA, `{"count":1}`},
	{"upper case", "inspect", strings.ToUpper(poolA), ``},
	{"short id", "inspect", "9f1c", ``},
	{"no dashes", "delete", strings.ReplaceAll(poolA, "-", ""), ``},
	{"register under a bad id", "register", "x", `{"count":1}`},
	{"borrow from a bad id", "borrow", "x", `{"ttl":1}`},
	{"return to a bad id", "return", "x", `{"lease":"` + unknownLease + `"}`},
	{"no count", "register", poolA, `{}`},
	{"count too high", "register", poolA, `{"count":1001}`},
	{"negative count", "register", poolA, `{"count":-1}`},
	{"count in words", "register", poolA, `{"count":"1"}`},
	{"fraction of a count", "register", poolA, `{"count":1.5}`},
	{"other case", "register", poolA, `{"Count":1}`},
	{"malformed", "register", poolA, `{"count":1`},
	{"null", "register", poolA, `null`},
	{"array", "register", poolA, `[1]`},
	{"trailing data", "register", poolA, `{"count":1}{}`},
	{"long registration", "register", poolA, `{"count":1}` + strings.Repeat(" ", 64<<10)},
	{"long borrow", "borrow", poolA, `{"ttl":1}` + strings.Repeat(" ", 64<<10)},
	{"long return", "return", poolA, `{"lease":"` + unknownLease + `"}` + strings.Repeat(" ", 64<<10)},
	{"no ttl", "borrow", poolA, `{}`},
	{"ttl of nothing", "borrow", poolA, `{"ttl":0}`},
	{"ttl in words", "borrow", poolA, `{"ttl":"30s"}`},
	{"negative wait", "borrow", poolA, `{"ttl":1,"wait":-1}`},
	{"wait of nothing", "borrow", poolA, `{"ttl":1,"wait":null}`},
	{"borrow", "borrow", poolA, `{"ttl":30,"unknown":[]}`},
	{"in use", "inspect", poolA, ``},
	{"none left", "borrow", poolA, `{"ttl":30}`},
	{"none left after a wait", "borrow", poolA, `{"ttl":30,"wait":1}`},
	{"renew", "renew", poolA, `{"lease":"LEASE","ttl":60,"unknown":[]}`},
	{"renew the unknown", "renew", poolA, `{"lease":"` + unknownLease + `","ttl":60}`},
	{"renew nothing", "renew", poolA, `{"ttl":60}`},
	{"renew without a ttl", "renew", poolA, `{"lease":"LEASE"}`},
	{"renew for nothing", "renew", poolA, `{"lease":"LEASE","ttl":0}`},
	{"renew for words", "renew", poolA, `{"lease":"LEASE","ttl":"60s"}`},
	{"renew at a bad id", "renew", "x", `{"lease":"LEASE","ttl":60}`},
	{"renewal malformed", "renew", poolA, `{"lease":"LEASE","ttl":60`},
	{"long renewal", "renew", poolA, `{"lease":"LEASE","ttl":60}` + strings.Repeat(" ", 64<<10)},
	{"renewal clamped", "renew", poolA, `{"lease":"LEASE","ttl":99999999999999999999}`},
	{"shrunk below", "register", poolA, `{"count":0}`},
	{"grown", "register", poolA, `{"count":2}`},
	{"clamped", "borrow", poolA, `{"ttl":99999999999999999999,"wait":99999999999999999999}`},
	{"return", "return", poolA, `{"lease":"LEASE"}`},
	{"return again", "return", poolA, `{"lease":"LEASE"}`},
	{"renew what was returned", "renew", poolA, `{"lease":"LEASE","ttl":60}`},
	{"return the unknown", "return", poolA, `{"lease":"` + unknownLease + `"}`},
	{"return nothing", "return", poolA, `{}`},
	{"return in braces", "return", poolA, `{"lease":"{` + unknownLease + `}"}`},
	{"return a number", "return", poolA, `{"lease":1}`},
	{"delete", "delete", poolA, ``},
	{"delete again", "delete", poolA, ``},
	{"deleted", "inspect", poolA, ``},
	{"return to a deleted pool", "return", poolA, `{"lease":"LEASE"}`},
	{"renew in a deleted pool", "renew", poolA, `{"lease":"LEASE","ttl":60}`},
	{"another pool", "inspect", poolB, ``},
}

// Both transports answer the same, byte for byte, except for what is new in each lease.
func TestParity(t *testing.T) {
	srv, store := openStore(t)
	overNATS := transcript(t, overNATS(startService(t, srv, store)))
	overHTTP := transcript(t, overHTTP(t, store))
	for i, c := range parityCases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(overHTTP[i])
			if overNATS[i] != overHTTP[i] {
				t.Errorf("over NATS %s", overNATS[i])
			}
		})
	}
}

// Both transports report an error of the store in the same way.
func TestParityOfFailures(t *testing.T) {
	for _, err := range []error{
		kvslots.ErrNoPool, kvslots.ErrNoSlot, kvslots.ErrNotHeld, kvslots.ErrMaxPools, kvslots.ErrUnavailable, kvslots.ErrClosed,
		&kvslots.RangeError{Field: "ttl", Range: "at least 1 second"},
		context.DeadlineExceeded, gateway.ErrDraining, errors.New("an inner reason"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			pools := gatewaytest.Failing{Err: fmt.Errorf("an inner reason: %w", err)}
			// A server each: one service's queue group must not answer for the next.
			overNATS, overHTTP := overNATS(startService(t, kvslotstest.Start(t, ""), pools)), overHTTP(t, pools)
			for op, body := range map[string]string{
				"register": `{"count":1}`, "inspect": ``, "delete": ``,
				"borrow": `{"ttl":1}`, "return": `{"lease":"` + unknownLease + `"}`,
				"renew": `{"lease":"` + unknownLease + `","ttl":1}`,
			} {
				got, want := overNATS(t, op, poolA, body), overHTTP(t, op, poolA, body)
				if got != want || strings.Contains(got, "an inner reason") {
					t.Errorf("%s over NATS %s, over HTTP %s", op, got, want)
				}
			}
		})
	}
}

// ask sends one request through a transport.
type ask func(t *testing.T, op, id, body string) string

var (
	leaseID = regexp.MustCompile(`"lease":"([^"]*)"`)
	anyTime = regexp.MustCompile(`"(expires_at_unix|fence)":\d+`)
)

func transcript(t *testing.T, send ask) (answers []string) {
	t.Helper()
	last := ""
	for _, c := range parityCases {
		answer := send(t, c.op, c.id, strings.ReplaceAll(c.body, "LEASE", last))
		if found := leaseID.FindStringSubmatch(answer); found != nil {
			last = found[1]
			if parsed, err := uuid.Parse(last); err != nil || parsed.String() != last {
				t.Errorf("%s: the lease is %q", c.name, last)
			}
			answer = strings.Replace(answer, last, "…", 1)
		}
		answers = append(answers, anyTime.ReplaceAllString(answer, `"$1":…`))
	}
	return answers
}

// overNATS adds the id to the body, if that is an object.
func overNATS(d *fixture) ask {
	return func(t *testing.T, op, id, body string) string {
		t.Helper()
		switch rest, object := strings.CutPrefix(body, "{"); {
		case body == "":
			body = `{"id":"` + id + `"}`
		case object && strings.HasPrefix(rest, "}"):
			body = `{"id":"` + id + `"` + rest
		case object:
			body = `{"id":"` + id + `",` + rest
		}
		code, answer := d.ask(t, op, body)
		return code + " " + answer
	}
}

// overHTTP puts the id into the path.
func overHTTP(t *testing.T, pools ops.Pools) ask {
	t.Helper()
	lending := gateway.NewLending()
	gw := gateway.New(gateway.Config{
		Store:    gatewaytest.Ready{},
		Lending:  lending,
		Logger:   logtest.Logger(),
		Dialects: []gateway.Dialect{gateway.NewLibrary(pools, lending, logtest.Logger())},
	})
	srv := httptest.NewServer(gw.Handler())
	t.Cleanup(srv.Close)
	return func(t *testing.T, op, id, body string) string {
		t.Helper()
		method, path := http.MethodPost, "/l/"+id+"/"+op
		if i := slices.Index([]string{"register", "inspect", "delete"}, op); i >= 0 {
			method, path = []string{http.MethodPut, http.MethodGet, http.MethodDelete}[i], "/l/"+id
		}
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		kvslotstest.Must(t, err)
		resp, err := srv.Client().Do(r)
		kvslotstest.Must(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		kvslotstest.Must(t, err)
		return fmt.Sprintf("%d %s", resp.StatusCode, answer)
	}
}
