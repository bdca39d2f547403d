package library_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

const pool = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// keyed sends a request with a request key, and returns the status, the answer and the header.
func (d *fixture) keyed(t *testing.T, method, path, body, key string) (int, wire.Lease, http.Header) {
	t.Helper()
	code, text, header := d.Do(t, method, path, body, wire.RequestKeyHeader, key)
	var lease wire.Lease
	if code == http.StatusOK {
		kvslotstest.Must(t, json.Unmarshal([]byte(text), &lease))
	}
	return code, lease, header
}

// Two gateways on one bucket.
func openTwo(t *testing.T, cfg kvslots.Config) (a, b *fixture, stores [2]*kvslots.Store) {
	t.Helper()
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	for i := range stores {
		stores[i], _ = gatewaytest.OpenStore(t, srv.Connect, cfg)
	}
	return openFixture(t, stores[0]), openFixture(t, stores[1]), stores
}

func TestRepeatAtTwoGateways(t *testing.T) {
	a, b, _ := openTwo(t, kvslots.Config{})
	for range 2 { // the registration is repeated, too
		if code, _, _ := a.keyed(t, "PUT", pool, `{"count":2}`, "register"); code != 200 {
			t.Fatal(code)
		}
	}
	if code, _, header := b.keyed(t, "PUT", pool, `{"count":3}`, "register"); code != 422 || header.Get(wire.ErrorHeader) != "key_reused" {
		t.Errorf("with another count: %d %s", code, header.Get(wire.ErrorHeader))
	}
	_, first, _ := a.keyed(t, "POST", pool+"/borrow", `{"ttl":60}`, "job 17")
	for _, d := range []*fixture{a, b} {
		code, again, header := d.keyed(t, "POST", pool+"/borrow", `{"ttl":60}`, "job 17")
		if code != 200 || again.Lease != first.Lease || again.Fence != first.Fence || again.Position != first.Position || again.ExpiresIn > 60 {
			t.Errorf("%d %+v; want %+v", code, again, first)
		}
		if header.Get(wire.WaitHeader) != "" {
			t.Errorf("a request that does not wait was granted %s s", header.Get(wire.WaitHeader))
		}
		d.want(t, "GET", pool, "", 200, `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","count":2,"in_use":1,"available":1,"waiting":0,"hash":"`+hashA+`"}`)
	}
	if code, _, header := b.keyed(t, "POST", pool+"/borrow", `{"ttl":61}`, "job 17"); code != 422 || header.Get(wire.ErrorHeader) != "key_reused" {
		t.Errorf("with another ttl: %d %s", code, header.Get(wire.ErrorHeader))
	}
	b.want(t, "POST", pool+"/return", `{"lease":"`+first.Lease.String()+`"}`, 200, `{"returned":true}`)
	if _, other, _ := b.keyed(t, "POST", pool+"/borrow", `{"ttl":61}`, "job 17"); other.Lease == first.Lease || other.Fence <= first.Fence {
		t.Errorf("after the return: %+v", other)
	}
}

func TestRequestKeyIsRefused(t *testing.T) {
	d := openFixture(t, openStore(t))
	for _, key := range []string{"", "ü", strings.Repeat("x", 129)} {
		code, text, header := d.Do(t, "POST", pool+"/borrow", `{"ttl":60}`, wire.RequestKeyHeader, key)
		if code != 400 || header.Get(wire.FieldHeader) != "header "+wire.RequestKeyHeader || !strings.Contains(text, "1 to 128 printable") {
			t.Errorf("%q: %d %s", key, code, text)
		}
	}
}

// A borrower in line hangs up and comes back: it is served before one that came later. Its
// answers say what was granted of its wait. Its first request was at another gateway.
func TestPlaceOfABorrowerThatComesBack(t *testing.T) {
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	impatient, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{ResumeGrace: time.Minute})
	short := &fixture{gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Lending.MaxWait = 2 * time.Second
		cfg.Dialects = []gateway.Dialect{gateway.NewLibrary(impatient, cfg.Lending, cfg.Logger)}
	})}
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{ResumeGrace: time.Minute})
	d := openFixture(t, store)
	d.Do(t, "PUT", pool, `{"count":1}`)
	_, holder, _ := d.keyed(t, "POST", pool+"/borrow", `{"ttl":600}`, "holder")
	inLine := func(away bool) {
		t.Helper()
		gatewaytest.Eventually(t, fmt.Sprint("the first place is away: ", away), func() bool {
			p, err := store.ReadPool(t.Context(), kvslots.ByID(uuid.MustParse(strings.TrimPrefix(pool, "/l/"))), kvslots.DetailPage{MaxWaiters: 1})
			return err == nil && len(p.Waiters) == 1 && p.Waiters[0].Away == away
		})
	}
	body := `{"ttl":60,"wait":600}`
	// The wait is over at the gateway's limit: the place is kept.
	code, _, header := short.keyed(t, "POST", pool+"/borrow", body, "first")
	if code != 409 || header.Get(wire.WaitHeader) != "2" {
		t.Errorf("%d, granted %q s", code, header.Get(wire.WaitHeader))
	}
	inLine(true)
	// The client hangs up: the place is kept.
	gone := d.Dial(t)
	_, _ = fmt.Fprintf(gone, "POST %s/borrow HTTP/1.1\r\nHost: localhost\r\n%s: first\r\nContent-Length: %d\r\n\r\n%s", pool, wire.RequestKeyHeader, len(body), body)
	inLine(false)
	later, back := make(chan int, 1), make(chan int, 1)
	go func() {
		code, _, _ := d.keyed(t, "POST", pool+"/borrow", body, "later")
		later <- code
	}()
	gatewaytest.Eventually(t, "2 in line", func() bool {
		_, text, _ := d.Do(t, "GET", pool, "")
		return strings.Contains(text, `"waiting":2`)
	})
	_ = gone.Close()
	inLine(true)
	var served wire.Lease
	go func() {
		var code int
		code, served, _ = d.keyed(t, "POST", pool+"/borrow", body, "first")
		back <- code
	}()
	inLine(false)
	d.Do(t, "POST", pool+"/return", `{"lease":"`+holder.Lease.String()+`"}`)
	if code := <-back; code != 200 || len(later) > 0 {
		t.Fatalf("the one that came back got %d; the later one was served: %t", code, len(later) > 0)
	}
	d.Do(t, "POST", pool+"/return", `{"lease":"`+served.Lease.String()+`"}`)
	if code := <-later; code != 200 {
		t.Errorf("the later one got %d", code)
	}
}

// Nothing is granted to a borrower that has gone, and its place delays no other one.
func TestSlotOfABorrowerThatDoesNotComeBack(t *testing.T) {
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{ResumeGrace: time.Second})
	d := openFixture(t, store)
	d.Do(t, "PUT", pool, `{"count":1}`)
	gone := d.Dial(t)
	_, holder, _ := d.keyed(t, "POST", pool+"/borrow", `{"ttl":600}`, "holder")
	body := `{"ttl":600,"wait":60}`
	_, _ = fmt.Fprintf(gone, "POST %s/borrow HTTP/1.1\r\nHost: localhost\r\n%s: gone\r\nContent-Length: %d\r\n\r\n%s", pool, wire.RequestKeyHeader, len(body), body)
	gatewaytest.Eventually(t, "it waits", func() bool {
		s, err := store.Stats(context.Background())
		return err == nil && len(s.Pools) == 1 && s.Pools[0].Waiting == 1
	})
	_ = gone.Close()
	d.Do(t, "POST", pool+"/return", `{"lease":"`+holder.Lease.String()+`"}`)
	if code, _, _ := d.keyed(t, "POST", pool+"/borrow", body, "next"); code != 200 {
		t.Errorf("the next one got %d", code)
	}
}
