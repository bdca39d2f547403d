package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// stuckStore is a store whose Ready returns when the channel is closed.
type stuckStore chan struct{}

func (s stuckStore) Ready() error {
	<-s
	return nil
}

func (s stuckStore) ID() string { return "" }

// /health fails while only a restart of the process would help.
func TestHealthOfAStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := make(stuckStore)
		g := New(Config{Store: store, Logger: logtest.Logger()})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go g.logReadiness(ctx)
		want := func(code int, body string) {
			t.Helper()
			synctest.Wait()
			if answer := get(g, "GET", "/health"); answer.Code != code || answer.Body.String() != body {
				t.Errorf("%d %s, want %d %s", answer.Code, answer.Body, code, body)
			}
		}
		<-time.After(readyEvery + stuckAfter)
		want(200, `{"status":"ok"}`)
		<-time.After(time.Millisecond)
		want(503, `{"status":"unavailable","reason":"the store is stuck"}`)
		close(store)
		want(200, `{"status":"ok"}`)
		<-time.After(readyEvery + stuckAfter + time.Second)
		want(200, `{"status":"ok"}`)
	})
}
