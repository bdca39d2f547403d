package natsapi_test

import (
	"net/http/httptest"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// The limit of waiters counts those of all transports, and those that have left no more.
func TestWaitersOfAllTransports(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store, func(cfg *natsapi.Config) { cfg.Lending.Waits.Limit(ops.Limits{Total: 2}) })
	web := httptest.NewServer(gateway.New(gateway.Config{
		Store: gatewaytest.Ready{}, Lending: d.lending, Logger: logtest.Logger(),
		Dialects: []gateway.Dialect{gateway.NewLibrary(store, d.lending, logtest.Logger())},
	}).Handler())
	t.Cleanup(web.Close)
	const refused = `{"error":"too many requests are waiting at this gateway"}`
	body := func(wait string) string { return `{"id":"` + poolA + `","ttl":600,"wait":` + wait + `}` }
	overHTTP := func(wait string) string { return overWeb(t, web, "POST", "/l/"+poolA+"/borrow", body(wait)) }

	for range 2 { // again after all have left
		d.register(t, "1")
		d.borrow(t, `"ttl":600`)
		ended := make(chan string)
		go func() { ended <- overHTTP("60") }()
		go func() {
			code, answer := d.ask(t, "borrow", body("60"))
			ended <- code + " " + answer
		}()
		d.waitFor(t, `"waiting":2`)
		d.want(t, "borrow", body("1"), "503", refused)
		if got := overHTTP("1"); got != "503 "+refused {
			t.Error(got)
		}
		d.want(t, "borrow", body("0"), "409", `{"error":"no resource available"}`)
		d.want(t, "delete", body("0"), "200", `{"deleted":true}`)
		for range 2 {
			if got := <-ended; got != `404 {"error":"no such pool"}` {
				t.Error(got)
			}
		}
	}
	if total, perIP := d.lending.Waits.Refused.Load(), d.lending.Waits.RefusedPerIP.Load(); total != 4 || perIP != 0 {
		t.Errorf("%d and %d were refused, want 4 and 0", total, perIP)
	}
}
