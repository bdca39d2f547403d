package natsapi_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Each answer has the request's id, the log line has it, too: the client's own if it is
// well-formed, otherwise a new one.
func TestRequestID(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store, func(cfg *natsapi.Config) {
		cfg.Calls = forrst.New(store, forrst.Config{Lending: cfg.Lending})
	})
	d.register(t, "1")
	made, seen := regexp.MustCompile("^[0-9a-f]{16}$"), map[string]bool{}
	for _, c := range []struct{ op, body, status string }{
		{"borrow", `{"id":"` + poolA + `","ttl":60}`, "200"},
		{"borrow", `{"id":"` + poolA + `","ttl":60}`, "409"},
		{"inspect", `{"id":"` + poolA + `"}`, "200"},
		{"inspect", `{"id":`, "400"},
		{"rpc", `{}`, "400"},
	} {
		for i, header := range []nats.Header{nil, {"X-Request-Id": {"not well formed"}}, {"X-Request-Id": {"mine-1"}}} {
			if c.status == "200" && i > 0 && c.op == "borrow" {
				continue // one slot
			}
			answer, err := d.nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "kvslots." + c.op, Data: []byte(c.body), Header: header})
			kvslotstest.Must(t, err)
			id := answer.Header.Get("X-Request-Id")
			if status(answer) != c.status || (id == "mine-1") != (i == 2) || i < 2 && (!made.MatchString(id) || seen[id]) {
				t.Errorf("%s %s with %v: %s, %v", c.op, c.body, header, status(answer), answer.Header)
			}
			seen[id] = true
			line := fmt.Sprintf(`"subject":"kvslots.%s","status":%s,"duration_ms":[^"]*"request_id":"%s"`, c.op, c.status, id)
			gatewaytest.Eventually(t, line, func() bool { return regexp.MustCompile(line).MatchString(d.logs.String()) })
		}
	}
}
