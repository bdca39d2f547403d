package dflockd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

// lateGrants grants only after the client has hung up.
type lateGrants struct {
	ops.Sessions
	hungUp chan struct{}
}

func (s lateGrants) Acquire(ctx context.Context, session string, r kvslots.Resource, ttl, wait time.Duration, opts ...kvslots.Option) (kvslots.Grant, error) {
	g, err := s.Sessions.Acquire(context.WithoutCancel(ctx), session, r, ttl, wait, opts...)
	<-ctx.Done()
	s.hungUp <- struct{}{}
	return g, err
}

func (s lateGrants) Enqueue(ctx context.Context, session string, r kvslots.Resource, ttl time.Duration, opts ...kvslots.Option) (kvslots.Grant, bool, error) {
	g, acquired, err := s.Sessions.Enqueue(context.WithoutCancel(ctx), session, r, ttl, opts...)
	<-ctx.Done()
	s.hungUp <- struct{}{}
	return g, acquired, err
}

func TestGrantAfterHangUpIsReleased(t *testing.T) {
	sessions := lateGrants{openStore(t, kvslots.Config{}), make(chan struct{})}
	d := openFixture(t, sessions)
	for path, body := range map[string]string{"/v1/locks/k": `{"acquire_timeout_s":0,"lease_ttl_s":600}`, "/v1/locks/k/enqueue": `{"lease_ttl_s":600}`} {
		s := d.session(t)
		now := d.hangUp(t, s, path, body)
		gatewaytest.Eventually(t, "the lock is held", func() bool { return len(d.stats(t).Locks) == 1 })
		now()
		<-sessions.hungUp
		d.free(t, "k")
	}
}

// A request that waits for another one of its session, and whose client hangs up, is never
// served.
func TestHangUpBeforeItsTurn(t *testing.T) {
	store := openStore(t, kvslots.Config{})
	d := openFixture(t, store)
	a, b := d.session(t), d.session(t)
	g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
	first := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
	d.waiters(t, "k", 1)
	d.hangUp(t, b, "/v1/locks/k/enqueue", `{"lease_ttl_s":600}`)()
	gatewaytest.Eventually(t, "the log says 408", func() bool { return strings.Contains(d.Logs.String(), `"status":408`) })
	d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
	if got := <-first; !strings.Contains(got, `"status":"ok"`) {
		t.Errorf("got %s", got)
	}
	if locks := d.stats(t).Locks; len(locks) != 1 || locks[0].Waiters != 0 {
		t.Errorf("the request was served: %+v", locks)
	}
}
