package library_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// fixture is a gateway with the Library API.
type fixture struct{ *gatewaytest.Gateway }

// openStore opens a store on an embedded server; both end with the test.
func openStore(t *testing.T) *kvslots.Store {
	t.Helper()
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{MaxTTL: time.Hour})
	return store
}

// openFixture serves pools until the test ends.
func openFixture(t *testing.T, pools ops.Pools) *fixture {
	t.Helper()
	return &fixture{gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{gateway.NewLibrary(pools, cfg.Lending, cfg.Logger)}
	})}
}

// want sends a request and compares status and body.
func (d *fixture) want(t *testing.T, method, path, body string, code int, answer string) {
	t.Helper()
	gotCode, got, header := d.Do(t, method, path, body)
	if gotCode != code || got != answer {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, gotCode, got, code, answer)
	}
	if kind := header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("%s %s: Content-Type %q", method, path, kind)
	}
	if cache := header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("%s %s: Cache-Control %q", method, path, cache)
	}
}
