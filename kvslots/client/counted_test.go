package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A wait in vain is one timeout, also if it is longer than the gateway's longest one; a call that does not wait is one
// refusal; a canceled one is neither.
func TestCountedOnce(t *testing.T) {
	for name, transport := range map[string]func(*gateways, *testing.T) *client.Client{"nats": (*gateways).overNATS, "http": (*gateways).overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serveStore(t, kvslots.Config{MaxPools: maxPools})
			g.lending.MaxWait = time.Second
			c, pool := transport(g, t), uuid.New()
			kvslotstest.Must(t, kvslotstest.Err(g.store.Register(t.Context(), pool, 1)))
			kvslotstest.Must(t, kvslotstest.Err(g.store.Borrow(t.Context(), pool)))
			holder, err := kvslots.NewSession(t.Context(), g.store)
			kvslotstest.Must(t, err)
			defer func() { _ = holder.Close(context.Background()) }()
			kvslotstest.Must(t, holder.Mutex("x").Lock(t.Context()))
			session := newSession(t, c)
			canceled := func(ctx context.Context) (context.Context, kvslots.Option) {
				ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				t.Cleanup(cancel)
				return ctx, kvslots.WithWait(time.Minute)
			}
			vain := func(ctx context.Context) (context.Context, kvslots.Option) {
				return ctx, kvslots.WithWait(2 * time.Second)
			}
			atOnce := func(ctx context.Context) (context.Context, kvslots.Option) { return ctx, kvslots.WithWait(0) }
			for call, take := range map[string]func(context.Context, kvslots.Option) error{
				"borrow": func(ctx context.Context, wait kvslots.Option) error {
					return kvslotstest.Err(c.Borrow(ctx, pool, wait))
				},
				"with": func(ctx context.Context, wait kvslots.Option) error {
					return kvslots.With(ctx, c, pool, func(context.Context, *kvslots.Lease) error { return nil }, wait)
				},
				"lock": func(ctx context.Context, wait kvslots.Option) error { return session.Mutex("x", wait).Lock(ctx) },
			} {
				for how, of := range map[string]struct {
					as                 func(context.Context) (context.Context, kvslots.Option)
					timeouts, refusals float64
				}{"in vain": {vain, 1, 0}, "at once": {atOnce, 0, 1}, "canceled": {canceled, 0, 0}} {
					timeouts, refusals := g.counted(t)
					if err := take(of.as(t.Context())); !errors.Is(err, kvslots.ErrNoSlot) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s, %s: %v", call, how, err)
					}
					kvslotstest.Eventually(t, "no place is left", func() bool { return g.lending.Open() == 0 })
					timeoutsNow, refusalsNow := g.counted(t)
					if timeoutsNow-timeouts != of.timeouts || refusalsNow-refusals != of.refusals {
						t.Errorf("%s, %s: %v timeouts and %v refusals", call, how, timeoutsNow-timeouts, refusalsNow-refusals)
					}
				}
			}
		})
	}
}

func (g *gateways) counted(t *testing.T) (timeouts, refusals float64) {
	t.Helper()
	all := prometheus.NewRegistry()
	all.MustRegister(g.lending)
	families, err := all.Gather()
	kvslotstest.Must(t, err)
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			counts[family.GetName()] += metric.GetCounter().GetValue()
		}
	}
	return counts["kvslots_timeouts_total"], counts["kvslots_refusals_total"]
}
