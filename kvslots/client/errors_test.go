package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// closedURL returns a URL at which no server listens.
func closedURL(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("http://127.0.0.1:%d", kvslotstest.Port(t))
}

// An error without an answer is retryable, and does not contain the pool's id.
func TestUnanswered(t *testing.T) {
	t.Parallel() // waits for seconds
	pool := uuid.New()
	for name, url := range map[string]string{
		"nats": kvslotstest.Start(t, "").ClientURL(),
		"http": closedURL(t),
	} {
		_, err := dial(t, url).Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(time.Second))
		unanswered, ok := errors.AsType[*client.Unanswered](err)
		if !ok || !errors.Is(err, kvslots.ErrUnavailable) || strings.Contains(unanswered.Error(), pool.String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pool beyond the gateway's limit is refused as such; one that is registered is not.
func TestTooManyPools(t *testing.T) {
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		pools := make([]uuid.UUID, maxPools)
		for i := range pools {
			pools[i] = uuid.New()
			kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pools[i], 1)))
		}
		if _, err := c.Register(t.Context(), uuid.New(), 1); !errors.Is(err, kvslots.ErrMaxPools) {
			t.Errorf("another pool: %v", err)
		}
		if _, err := c.Register(t.Context(), pools[0], 2); err != nil {
			t.Errorf("the same pool: %v", err)
		}
		kvslotstest.Must(t, c.Delete(t.Context(), pools[0]))
		if _, err := c.Register(t.Context(), uuid.New(), 1); err != nil {
			t.Errorf("after a deletion: %v", err)
		}
	})
}

// A request that is canceled before a gateway has answered returns the cause.
func TestGivenUp(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		for name, call := range map[string]func() error{
			"inspect": func() error { _, err := c.Inspect(ended, uuid.New()); return err },
			"borrow": func() error {
				_, err := c.Borrow(ended, uuid.New(), kvslots.WithFixedTTL(time.Second), kvslots.WithWait(0))
				return err
			},
			"session": func() error { _, _, err := c.CreateSession(ended); return err },
		} {
			if err := call(); !errors.Is(err, errGone) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestDrainingGateway(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		pool := uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 1)))
		g.lending.Stop()
		_, err := c.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(time.Second))
		refused, ok := errors.AsType[*wire.Refusal](err)
		if !ok || !errors.Is(err, kvslots.ErrUnavailable) || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("got %v", err)
		}
		if refused.RetryAfter != time.Second {
			t.Errorf("retry after %v", refused.RetryAfter)
		}
	})
}

// An answer that is not a gateway's is an error.
func TestNoGateway(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	var body string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	defer web.Close()
	for name, c := range map[string]*client.Client{"nats": dial(t, srv.ClientURL()), "http": dial(t, web.URL)} {
		for _, body = range []string{"", "null", "[]", `{"expires_in":5}`, `{"lease":"x"}`, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34","expires_in":-1}`} {
			nc := srv.Connect()
			sub, err := nc.Subscribe("kvslots.borrow", func(m *nats.Msg) { _ = m.Respond([]byte(body)) })
			kvslotstest.Must(t, errors.Join(err, nc.Flush()))
			_, err = c.Borrow(t.Context(), uuid.New(), kvslots.WithFixedTTL(time.Second), kvslots.WithWait(0))
			if !errors.Is(err, client.ErrNotUnderstood) {
				t.Errorf("%s: %s: %v", name, body, err)
			}
			kvslotstest.Must(t, sub.Unsubscribe())
		}
	}
}

// errors.Is finds the error for an HTTP status if the answer does not name one.
func TestAnswersOfProxies(t *testing.T) {
	var status int
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", status)
	}))
	defer web.Close()
	c := dial(t, web.URL)
	for _, answer := range []struct {
		status int
		want   error // nil if no error of package kvslots
	}{
		{http.StatusFound, nil},
		{http.StatusTemporaryRedirect, nil},
		{http.StatusUnauthorized, nil},
		{http.StatusNotFound, errors.ErrUnsupported},
		{http.StatusMethodNotAllowed, errors.ErrUnsupported},
		{http.StatusConflict, kvslots.ErrNoSlot},
		{http.StatusBadGateway, kvslots.ErrUnavailable},
	} {
		status = answer.status
		_, err := c.Renew(t.Context(), uuid.New(), uuid.New(), time.Second)
		refused, ok := errors.AsType[*wire.Refusal](err)
		if !ok || refused.Status != answer.status || !errors.Is(refused.Err, answer.want) {
			t.Errorf("%d: %v", answer.status, err)
		}
	}
}

// No URL contains a pool's id.
func TestPoolIsNotInTheURL(t *testing.T) {
	pool := uuid.New()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/l/self" || r.Header.Get(wire.PoolHeader) != pool.String() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(wire.Pool{ID: pool, State: kvslots.State{Count: 3, Available: 3}})
	}))
	defer web.Close()
	if state, err := dial(t, web.URL).Inspect(t.Context(), pool); err != nil || state.Count != 3 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestDialRefusesURLs(t *testing.T) {
	for _, at := range []string{"http:8080", "127.0.0.1:8080", "redis://127.0.0.1:6379", "http://a,nats://b"} {
		if _, err := client.Dial(t.Context(), at, client.Config{}); err == nil || !strings.Contains(err.Error(), "url must be") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := dialEither(t, "nats://"+strings.TrimPrefix(closedURL(t), "http://"), client.Config{}); !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("got %v", err)
	}
}

func TestTokenIsAskedFor(t *testing.T) {
	c, err := client.Dial(t.Context(), serve(t).url+"/", client.Config{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	kvslotstest.Must(t, err)
	_, err = c.Inspect(t.Context(), uuid.New())
	if refused, ok := errors.AsType[*wire.Refusal](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("got %v", err)
	}
}

func TestTemporary(t *testing.T) {
	for _, c := range []struct {
		err       error
		temporary bool
	}{
		{&client.Unanswered{Err: errGone}, true},
		{fmt.Errorf("while borrowing: %w", client.ErrUnconfirmed), true},
		{&wire.Refusal{Status: 429, Err: kvslots.ErrMaxWaiters}, true},
		{&wire.Refusal{Status: 502}, true},
		{&wire.Refusal{Status: 503}, true},
		{&wire.Refusal{Status: 507}, true},
		{&wire.Refusal{Status: 400}, false},
		{&wire.Refusal{Status: 401}, false},
		{&wire.Refusal{Status: 404}, false},
		{&wire.Refusal{Status: 409}, false},
		{&wire.Refusal{Status: 500}, false},
		{client.ErrNotUnderstood, false},
	} {
		if got := client.Temporary(c.err); got != c.temporary {
			t.Errorf("%#v: %t", c.err, got)
		}
	}
}
