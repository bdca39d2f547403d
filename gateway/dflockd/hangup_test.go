package dflockd_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

// lateGrants grants only after the client has hung up.
type lateGrants struct {
	ops.Sessions
	hungUp chan struct{}
}

func (s lateGrants) Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error) {
	g, err := s.Sessions.Acquire(context.WithoutCancel(ctx), session, r, opts...)
	<-ctx.Done()
	s.hungUp <- struct{}{}
	return g, err
}

func (s lateGrants) Enqueue(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, bool, error) {
	g, acquired, err := s.Sessions.Enqueue(context.WithoutCancel(ctx), session, r, opts...)
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

// A gateway that was stopped for a while finds requests whose clients have gone, and may have
// asked another gateway meanwhile.
func TestRequestsOfClientsThatHaveGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system cannot be asked")
	}
	store := openStore(t, kvslots.Config{})
	d := openFixture(t, store)
	a, b := d.session(t), d.session(t)
	g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
	d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 200, queued)

	paused, resume := gatewaytest.OpenPaused(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{gateway.NewDflockd(store, gateway.DflockdConfig{Lending: cfg.Lending, Turns: gateway.NewTurns(), Logger: cfg.Logger})}
	})
	stopped := &fixture{paused}
	stopped.hangUp(t, b, "/v1/locks/k/wait", `{"timeout_s":0}`)()
	stopped.hangUp(t, a, "/v1/locks/free", `{"acquire_timeout_s":0}`)()
	stopped.hangUp(t, a, "/v1/locks/free/enqueue", "")()
	resume()
	gatewaytest.Eventually(t, "the log says 408 of each", func() bool { return strings.Count(stopped.Logs.String(), `"status":408`) == 3 })

	d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
	d.grant(t, b, "/v1/locks/k/wait", `{"timeout_s":30}`)
	for _, lock := range d.stats(t).Locks {
		if lock.Key != "k" {
			t.Errorf("the request was served: %+v", lock)
		}
	}
}
