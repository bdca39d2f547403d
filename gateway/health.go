package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/clock"
)

// readyEvery is how often the gateway checks whether the store is ready, to log changes.
const readyEvery = time.Second

// unreadyAgain is how often the gateway logs that the store is still not ready.
const unreadyAgain = 15 * time.Second

// stuckAfter is how long a check may take. The store bounds its time to a few seconds, so the
// store is stuck after that.
const stuckAfter = 30 * time.Second

type status struct {
	Status string `json:"status"`
	Sync   string `json:"sync,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// health answers 503 only if the store is stuck. It does not report what /ready reports: a
// restart of the process would not mend that.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	code, answer := http.StatusOK, status{Status: "ok"}
	if began := g.checkBegan.Load(); began != nil && time.Since(*began) > stuckAfter {
		code, answer = http.StatusServiceUnavailable, status{Status: "unavailable", Reason: "the store is stuck"}
	}
	_ = jsonhttp.Answer(w, code, answer)
}

func (g *Gateway) check() error {
	g.checkBegan.Store(new(time.Now()))
	defer g.checkBegan.Store(nil)
	return g.opened.Load().Store.Ready()
}

// ready reports whether borrowers may be sent to this gateway.
func (g *Gateway) ready(w http.ResponseWriter, _ *http.Request) {
	code, answer := g.readiness()
	_ = jsonhttp.Answer(w, code, answer)
}

func (g *Gateway) readiness() (int, status) {
	if g.cfg.Lending.Stopped() {
		return http.StatusServiceUnavailable, status{Status: "draining"}
	}
	opened := g.opened.Load()
	if err := opened.Store.Ready(); err != nil {
		return http.StatusServiceUnavailable, status{Status: "unavailable", Reason: err.Error()}
	}
	return http.StatusOK, status{Status: "ready", Sync: opened.Sync}
}

// logReadiness logs when the store stops being ready, with the reason, and when it is
// ready again. It returns when ctx ends.
func (g *Gateway) logReadiness(ctx context.Context) {
	var since, logged time.Time // since is zero while the store is ready
	for clock.Sleep(ctx, readyEvery); ctx.Err() == nil; clock.Sleep(ctx, readyEvery) {
		err := g.check()
		switch {
		case ctx.Err() != nil || err == nil && since.IsZero():
		case err == nil:
			g.log.Info("ready again", "after_ms", ops.Milliseconds(time.Since(since)))
			since = time.Time{}
		case since.IsZero():
			since, logged = time.Now(), time.Now()
			g.log.Error("not ready: send borrowers elsewhere", "reason", err.Error())
		case time.Since(logged) >= unreadyAgain:
			logged = time.Now()
			g.log.Error("still not ready", "reason", err.Error())
		}
	}
}
