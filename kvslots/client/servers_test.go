package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A server that fails is skipped, and the next request begins with the one that has answered.
func TestServersInTurn(t *testing.T) {
	for name, answer := range map[string]int{"closes the connection": 0, "is stopping": 503} {
		t.Run(name, func(t *testing.T) {
			bad, good := &fakeGateway{answers: []int{answer}}, &fakeGateway{answers: []int{200}}
			one, other := httptest.NewServer(bad), httptest.NewServer(good)
			defer one.Close()
			defer other.Close()
			c := dial(t, closedURL(t)+", "+one.URL+","+other.URL+"/")
			for range 3 {
				kvslotstest.Must(t, kvslotstest.Err(c.Borrow(t.Context(), uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))))
			}
			if len(bad.got(t)) != 1 || len(good.asks) != 3 {
				t.Errorf("%d and %d requests", len(bad.asks), len(good.asks))
			}
			if bad.asks[0].key != good.asks[0].key {
				t.Error("the next server got another request key")
			}
		})
	}
}

// A server that accepts connections and never answers takes no more than its share of the time.
func TestServerIsSilent(t *testing.T) {
	t.Parallel() // waits for seconds
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	defer ln.Close()
	good := httptest.NewServer(&fakeGateway{answers: []int{200}})
	defer good.Close()
	c := dial(t, "http://"+ln.Addr().String()+","+good.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Borrow(ctx, uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); err != nil {
		t.Error(err)
	}
}

// If all fail, the error names each, and is that of a refusal if there was one.
func TestNoServer(t *testing.T) {
	one, other := closedURL(t), closedURL(t)
	_, err := dial(t, one+","+other).Inspect(t.Context(), uuid.New())
	if _, ok := errors.AsType[*client.Unanswered](err); !ok {
		t.Errorf("got %v", err)
	}
	for _, at := range []string{one, other} {
		if !strings.Contains(err.Error(), strings.TrimPrefix(at, "http://")) {
			t.Errorf("the error does not name %s: %v", at, err)
		}
	}
	stopping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer stopping.Close()
	if _, err := dial(t, stopping.URL+","+one).Inspect(t.Context(), uuid.New()); !errors.Is(err, kvslots.ErrUnavailable) || err.Error() != "HTTP status 503" {
		t.Errorf("got %v", err)
	}
}

// A definite answer is not asked for elsewhere.
func TestServerRefuses(t *testing.T) {
	full, other := &fakeGateway{answers: []int{409}}, &fakeGateway{answers: []int{200}}
	one, two := httptest.NewServer(full), httptest.NewServer(other)
	defer one.Close()
	defer two.Close()
	if _, err := dial(t, one.URL+","+two.URL).Borrow(t.Context(), uuid.New(), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); !errors.Is(err, kvslots.ErrNoSlot) {
		t.Errorf("got %v", err)
	}
	if len(other.got(t)) != 0 {
		t.Error("the other server was asked")
	}
}

func TestDialRefusesMixedURLs(t *testing.T) {
	for _, urls := range []string{"http://a,nats://b", "http://a,", "https://a,http:"} {
		if _, err := client.Dial(t.Context(), urls, client.Config{}); err == nil || !strings.Contains(err.Error(), "url") {
			t.Errorf("%s: %v", urls, err)
		}
	}
}
