package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ask is a request that a fakeGateway has got.
type ask struct {
	key  string
	wait int
	at   time.Time
}

// fakeGateway gives scripted answers over HTTP: a status, or 0 to close the connection. The
// last one is repeated. 200 grants a lease.
type fakeGateway struct {
	answers []int
	after   string // Retry-After of refusals
	asked   func() // called at each request; may be nil

	mu   sync.Mutex
	asks []ask
}

func (f *fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Wait int }
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	status := f.answers[min(len(f.asks), len(f.answers)-1)]
	f.asks = append(f.asks, ask{r.Header.Get(wire.RequestKeyHeader), body.Wait, time.Now()})
	f.mu.Unlock()
	if f.asked != nil {
		f.asked()
	}
	switch status {
	case 0:
		panic(http.ErrAbortHandler)
	case http.StatusOK:
		fmt.Fprintf(w, `{"lease":%q,"expires_in":60}`, uuid.New())
		return
	case http.StatusConflict:
		w.Header().Set(wire.ErrorHeader, "no_slot")
	}
	if f.after != "" {
		w.Header().Set(wire.RetryAfterHeader, f.after)
	}
	w.WriteHeader(status)
}

// got returns the requests, and checks that all have the same key.
func (f *fakeGateway) got(t *testing.T) []ask {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asks {
		if a.key == "" || a.key != f.asks[0].key {
			t.Errorf("the keys of the requests are not the same: %v", f.asks)
		}
	}
	return f.asks
}

func (f *fakeGateway) client(t *testing.T) *client.Client {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return dial(t, srv.URL)
}

// A request is repeated with its key until the wait is over: in the same place in line, for a
// gateway that knows keys.
func TestBorrowAsksAgain(t *testing.T) {
	t.Parallel() // waits for seconds
	const long = 10 * time.Minute
	for _, c := range []struct {
		name    string
		answers []int
		after   string
		wait    time.Duration
		asks    int
		least   time.Duration
		err     error
	}{
		{"granted", []int{200}, "", long, 1, 0, nil},
		{"the gateway waits no longer", []int{409, 409, 200}, "", long, 3, 0, nil},
		{"without a wait", []int{409}, "", 0, 1, 0, kvslots.ErrNoSlot},
		{"a lost answer", []int{0, 0, 200}, "", long, 3, 0, nil},
		{"a lost answer without a wait", []int{0, 200}, "", 0, 2, 0, nil},
		{"stopping", []int{503, 200}, "1", long, 2, time.Second, nil},
		{"stopping, without a wait", []int{503}, "1", 0, 1, 0, kvslots.ErrUnavailable},
		{"asks for a longer pause than the wait", []int{503}, "30", 5 * time.Second, 1, 0, kvslots.ErrUnavailable},
		{"refused", []int{401}, "", long, 1, 0, new(wire.Refusal)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeGateway{answers: c.answers, after: c.after}
			_, err := f.client(t).Borrow(t.Context(), uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(c.wait))
			_, refused := c.err.(*wire.Refusal)
			if _, got := errors.AsType[*wire.Refusal](err); !errors.Is(err, c.err) && !(refused && got) {
				t.Errorf("got %v", err)
			}
			asks := f.got(t)
			if len(asks) != c.asks {
				t.Fatalf("%d requests", len(asks))
			}
			if took := asks[len(asks)-1].at.Sub(asks[0].at); took < c.least {
				t.Errorf("repeated after %v", took)
			}
			for _, a := range asks {
				if a.wait > 60 || c.wait > 0 && a.wait < 1 {
					t.Errorf("asked for a wait of %d s", a.wait)
				}
			}
		})
	}
}

// The key of the caller is used.
func TestBorrowWithItsKey(t *testing.T) {
	f := &fakeGateway{answers: []int{409, 200}}
	if _, err := f.client(t).Borrow(t.Context(), uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute), kvslots.WithRequestKey("mine")); err != nil {
		t.Error(err)
	}
	if asks := f.got(t); len(asks) != 2 || asks[0].key != "mine" {
		t.Errorf("got %v", asks)
	}
}

// The end of the context ends the repeats.
func TestBorrowIsGivenUp(t *testing.T) {
	for name, status := range map[string]int{"no slot": 409, "lost": 0, "stopping": 503} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			f := &fakeGateway{answers: []int{status}, after: "3600"}
			f.asked = func() { cancel(errGone) }
			if _, err := f.client(t).Borrow(ctx, uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Hour)); !errors.Is(err, errGone) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// When gateways have had their time to answer, none is asked to give up the place in line.
func TestBorrowDoesNotLeaveWithoutAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fakeGateway{answers: []int{503}}
	f.asked = func() { cancel(client.ErrAnswerTimeout) }
	if _, err := f.client(t).Borrow(ctx, uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Hour)); !errors.Is(err, client.ErrAnswerTimeout) {
		t.Errorf("got %v", err)
	}
	if asks := f.got(t); len(asks) != 1 {
		t.Errorf("got %v", asks)
	}
}

// A wait goes on when the gateway's longest wait is over.
func TestWaitsLongerThanTheGateway(t *testing.T) {
	t.Parallel() // waits for seconds
	g := serveStore(t, kvslots.Config{})
	g.lending.MaxWait = time.Second
	for name, c := range map[string]*client.Client{"nats": g.overNATS(t), "http": g.overHTTP(t)} {
		t.Run(name, func(t *testing.T) {
			pool := uuid.New()
			kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 1)))
			held, err := g.store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
			kvslotstest.Must(t, err)
			granted := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := c.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute))
				granted <- err
			}()
			kvslotstest.Eventually(t, "a wait of more than a second", func() bool {
				state, err := g.store.Inspect(t.Context(), pool)
				return err == nil && state.Waiting == 1 && time.Since(began) > 1500*time.Millisecond
			})
			kvslotstest.Must(t, kvslotstest.Err(held.Return(t.Context())))
			if err := <-granted; err != nil {
				t.Error(err)
			}
		})
	}
}

// Over NATS a repeat does not cancel the request before it, whose grant it may take over. When
// the client gives up, it cancels all of them.
func TestRepeatsAreCanceledTogether(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	c, nc := dial(t, srv.ClientURL()), srv.Connect()
	canceled := make(chan string, 100)
	kvslotstest.Must(t, kvslotstest.Err(nc.Subscribe("kvslots.cancel", func(m *nats.Msg) { canceled <- m.Header.Get(wire.RequestHeader) })))
	kvslotstest.Must(t, nc.Flush())
	asked := make(chan *nats.Msg, 100)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := c.Borrow(ctx, uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Hour)) // no gateway answers at first
		served <- err
	}()
	requests := 0
	sub, err := nc.Subscribe("kvslots.borrow", func(m *nats.Msg) {
		asked <- m
		if requests++; requests == 1 {
			h := nats.Header{micro.ErrorCodeHeader: {"409"}, micro.ErrorHeader: {"no slot"}}
			h.Set(wire.ErrorHeader, "no_slot")
			_ = m.RespondMsg(&nats.Msg{Header: h})
		}
	})
	kvslotstest.Must(t, err)
	defer sub.Unsubscribe()
	first, second := <-asked, <-asked
	if key := first.Header.Get(wire.RequestKeyHeader); key == "" || second.Header.Get(wire.RequestKeyHeader) != key {
		t.Errorf("the keys are %q and %q", key, second.Header.Get(wire.RequestKeyHeader))
	}
	if first.Header.Get(wire.RequestHeader) == second.Header.Get(wire.RequestHeader) {
		t.Error("two requests have the same id")
	}
	if len(canceled) > 0 {
		t.Error("a request was canceled")
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for id := range canceled {
		if id == second.Header.Get(wire.RequestHeader) {
			return
		}
	}
}
