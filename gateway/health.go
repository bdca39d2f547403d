package gateway

import (
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

// status is the answer of /health and /ready.
type status struct {
	Status string `json:"status"`
	Sync   string `json:"sync,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// health says that the process runs; restarting it would not help whatever
// /ready complains about.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	_ = jsonhttp.Answer(w, http.StatusOK, status{Status: "ok"})
}

// ready says whether to send borrowers here.
func (g *Gateway) ready(w http.ResponseWriter, _ *http.Request) {
	code, answer := g.readiness()
	_ = jsonhttp.Answer(w, code, answer)
}

func (g *Gateway) readiness() (int, status) {
	if g.cfg.Lending.Stopped() {
		return http.StatusServiceUnavailable, status{Status: "draining"}
	}
	if err := g.cfg.Store.Ready(); err != nil {
		return http.StatusServiceUnavailable, status{Status: "unavailable", Reason: err.Error()}
	}
	return http.StatusOK, status{Status: "ready", Sync: g.cfg.Sync}
}
