package library_test

import (
	"fmt"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// Borrowers beyond a limit are refused, those within it continue to wait, and a borrow
// without a wait is served.
func TestWaitLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits gateway.Limits
		store  kvslots.Config
		want   string
	}{
		{"in all", gateway.Limits{Total: 3}, kvslots.Config{}, "503 max_waiters_total"},
		{"per address", gateway.Limits{PerIP: 3}, kvslots.Config{}, "429 max_waiters_per_ip"},
		{"per pool", gateway.Limits{}, kvslots.Config{MaxWaiters: 3}, "503 max_waiters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := gatewaytest.StartServer(t, natsembed.Config{})
			store, _ := gatewaytest.OpenStore(t, srv.Connect, c.store)
			d := &fixture{gatewaytest.Open(t, func(cfg *gateway.Config) {
				cfg.Lending.Waits.Limit(c.limits)
				cfg.Dialects = []gateway.Dialect{gateway.NewLibrary(store, cfg.Lending, cfg.Logger)}
			})}
			d.Do(t, "PUT", "/l/"+poolA, `{"count":1}`)
			if code, body, _ := d.Do(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":60}`); code != 200 {
				t.Fatalf("%d %s", code, body)
			}
			answers := make(chan string, 3)
			for range 3 {
				go func() {
					code, _, header := d.Do(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":60,"wait":60}`)
					answers <- fmt.Sprint(code, " ", header.Get("Kvslots-Error"))
				}()
			}
			d.waitFor(t, poolA, `"waiting":3`)
			code, body, header := d.Do(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":60,"wait":60}`)
			if got := fmt.Sprint(code, " ", header.Get("Kvslots-Error")); got != c.want {
				t.Errorf("beyond the limit: %s %s, want %s", got, body, c.want)
			}
			if code, body, _ := d.Do(t, "POST", "/l/"+poolA+"/borrow", `{"ttl":60}`); code != 409 {
				t.Errorf("without a wait: %d %s", code, body)
			}
			d.Do(t, "PUT", "/l/"+poolA, `{"count":4}`)
			for range 3 {
				if got := <-answers; got != "200 " {
					t.Errorf("a waiter is answered %s", got)
				}
			}
			d.Do(t, "DELETE", "/l/"+poolA, "")
			gatewaytest.Eventually(t, "no request waits", func() bool { return d.Lending.Open() == 0 })
		})
	}
}
