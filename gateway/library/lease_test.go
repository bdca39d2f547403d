package library_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const unknownLease = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"

func TestBorrowAndReturn(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 2)

	before := time.Now().Unix()
	first := d.borrow(t, poolA, `{"ttl":30}`)
	second := d.borrow(t, poolA, `{"ttl":30,"wait":0}`)
	if first.Position != 0 || second.Position != 1 {
		t.Errorf("positions %d and %d, want 0 and 1", first.Position, second.Position)
	}
	if first.ExpiresIn != 30 || first.ExpiresAtUnix < before+30 || first.ExpiresAtUnix > time.Now().Unix()+30 {
		t.Errorf("expires in %d at %d, asked for 30 at %d", first.ExpiresIn, first.ExpiresAtUnix, before)
	}
	if second.Fence <= first.Fence {
		t.Errorf("fences %d then %d", first.Fence, second.Fence)
	}
	d.want(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":30}`, 409, `{"error":"no resource available"}`)
	d.want(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":30,"wait":1}`, 409, `{"error":"no resource available"}`)

	returned := func(lease, answer string) {
		t.Helper()
		d.want(t, "POST", "/l/"+poolA+"/return", `{"lease":"`+lease+`"}`, 200, answer)
	}
	returned(unknownLease, `{"returned":false}`)
	returned(strings.ToUpper(first.Lease.String()), `{"returned":true}`)
	returned(first.Lease.String(), `{"returned":false}`)
	if again := d.borrow(t, poolA, `{"ttl":30}`); again.Position != 0 {
		t.Errorf("position %d after 0 came back", again.Position)
	}
}

func TestRenew(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 2)
	d.borrow(t, poolA, `{"ttl":600}`)
	held := d.borrow(t, poolA, `{"ttl":2}`)
	renew := func(lease, ttl string, code int) (again wire.Lease) {
		t.Helper()
		got, answer, _ := d.Do(t, "POST", "/l/"+poolA+"/renew", `{"lease":"`+lease+`","ttl":`+ttl+`}`)
		if got != code || code == 200 && json.Unmarshal([]byte(answer), &again) != nil {
			t.Errorf("renew: %d %s, want %d", got, answer, code)
		}
		return again
	}
	before := time.Now().Unix()
	again := renew(strings.ToUpper(held.Lease.String()), "600", 200)
	if again.Lease != held.Lease || again.Position != 1 || again.Fence != held.Fence {
		t.Errorf("%+v was renewed as %+v", held, again)
	}
	if again.ExpiresIn != 600 || again.ExpiresAtUnix < before+600 {
		t.Errorf("expires in %d at %d, renewed for 600 at %d", again.ExpiresIn, again.ExpiresAtUnix, before)
	}
	if clamped := renew(held.Lease.String(), "99999999999999999999", 200); clamped.ExpiresIn != 3600 {
		t.Errorf("expires in %d s, want the maximum of an hour", clamped.ExpiresIn)
	}

	renew(unknownLease, "30", 404)
	renew(held.Lease.String(), "1", 200) // shorter than it was
	d.waitFor(t, poolA, `"in_use":1`)
	d.want(t, "POST", "/l/"+poolA+"/renew", `{"lease":"`+held.Lease.String()+`","ttl":30}`, 404, `{"error":"lease not held"}`)
	d.waitFor(t, poolA, `"in_use":1`)
}

// A waiter that hangs up leaves the line, and nothing behind it.
func TestWaiterHangsUp(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 1)
	held := d.borrow(t, poolA, `{"ttl":30}`)

	conn := d.Dial(t)
	io.WriteString(conn, rawBorrow(poolA, `{"ttl":30,"wait":30}`))
	d.waitFor(t, poolA, `"waiting":1`)
	conn.Close()
	d.waitFor(t, poolA, `"waiting":0`)
	d.want(t, "POST", "/l/"+poolA+"/return", `{"lease":"`+held.Lease.String()+`"}`, 200, `{"returned":true}`)
	d.waitFor(t, poolA, `"in_use":0`)
}

// lateGrants grants a slot only after its borrower has hung up.
type lateGrants struct {
	ops.Pools
	hungUp chan struct{}
}

func (p lateGrants) Borrow(ctx context.Context, pool uuid.UUID, opts ...kvslots.Option) (*kvslots.Lease, error) {
	lease, err := p.Pools.Borrow(context.WithoutCancel(ctx), pool, opts...)
	<-ctx.Done()
	close(p.hungUp)
	return lease, err
}

func TestGrantAfterHangUpIsReturned(t *testing.T) {
	pools := lateGrants{Pools: openStore(t), hungUp: make(chan struct{})}
	d := openFixture(t, pools)
	d.register(t, poolA, 1)

	conn := d.Dial(t)
	io.WriteString(conn, rawBorrow(poolA, `{"ttl":30}`))
	d.waitFor(t, poolA, `"in_use":1`)
	conn.Close()
	<-pools.hungUp
	d.waitFor(t, poolA, `"in_use":0`)
}

func TestDraining(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 1)
	held := d.borrow(t, poolA, `{"ttl":30}`)
	answered := make(chan string, 1)
	borrow := func() {
		code, body, header := d.Do(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":30,"wait":30}`)
		answered <- fmt.Sprint(code, body, header.Get("Retry-After"))
	}
	go borrow()
	d.waitFor(t, poolA, `"waiting":1`)
	d.Lending.Stop()
	const draining = `503{"error":"draining"}1`
	if got := <-answered; got != draining {
		t.Errorf("the waiter got %s", got)
	}
	if borrow(); draining != <-answered {
		t.Error("a new borrower got another answer than the waiter")
	}
	d.waitFor(t, poolA, `"waiting":0`)
	d.want(t, "POST", "/l/"+poolA+"/return", `{"lease":"`+held.Lease.String()+`"}`, 200, `{"returned":true}`)
	d.want(t, "DELETE", "/l/"+poolA, "", 200, `{"deleted":true}`)
}

// Several requests in one write, and a body in chunks, which is the connection's last.
func TestPipelinedAndChunked(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 2)
	conn := d.Dial(t)
	io.WriteString(conn, rawBorrow(poolA, `{"ttl":30}`)+
		"GET /l/"+poolA+" HTTP/1.1\r\nHost: x\r\n\r\n"+
		"POST /l/"+poolA+"/borrow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"tt\r\n6\r\nl\":30}\r\n0\r\n\r\n")
	answers := bufio.NewReader(conn)
	for i, want := range []string{`"position":0`, `"in_use":1`, `"position":1`} {
		resp, err := http.ReadResponse(answers, nil)
		kvslotstest.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		kvslotstest.Must(t, err)
		if !strings.Contains(string(body), want) {
			t.Errorf("answer %d is %s, want %s", i, body, want)
		}
	}
}

func rawBorrow(pool, body string) string {
	return fmt.Sprintf("POST /l/%s/borrow HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", pool, len(body), body)
}

func (d *fixture) register(t *testing.T, pool string, count int) {
	t.Helper()
	if code, body, _ := d.Do(t, "PUT", "/l/"+pool, fmt.Sprintf(`{"count":%d}`, count)); code != 200 {
		t.Fatalf("register: %d %s", code, body)
	}
}

// borrow must succeed.
func (d *fixture) borrow(t *testing.T, pool, body string) (lease wire.Lease) {
	t.Helper()
	code, answer, _ := d.Do(t, "POST", "/l/"+pool+"/borrow", body)
	if err := json.Unmarshal([]byte(answer), &lease); err != nil || code != 200 {
		t.Errorf("borrow: %d %s", code, answer)
	}
	return lease
}

// waitFor waits until an inspection contains a text.
func (d *fixture) waitFor(t *testing.T, pool, text string) {
	t.Helper()
	gatewaytest.Eventually(t, text, func() bool {
		_, state, _ := d.Do(t, "GET", "/l/"+pool, "")
		return strings.Contains(state, text)
	})
}
