package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ghosts is how many clients there are.
var ghosts = map[bool]int{false: 200, true: 1000}[os.Getenv("KVSLOTS_SOAK") != ""]

const (
	borrow = `{"id":"` + pool + `","ttl":600,"wait":60}`
	call   = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"a.b","arguments":{}},"extensions":[` +
		`{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","scope":"global","auto_release":false,"ttl":{"value":600,"unit":"second"},"block":{"value":60,"unit":"second"}}}]}`
	free = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"urn:cline:forrst:ext:atomic-lock:fn:force-release","arguments":{"key":"lock:k"}}}`
)

// Clients have joined a line and are gone. Their places delay a client that waits behind them by less than 2 s for 1,000 of them,
// whether they are kept because of a request key or not. Over HTTP nothing is lent to them; over NATS each is granted what it
// waited for, and as the server finds no receiver, it is taken back.
func TestGhosts(t *testing.T) {
	const borrowed = "/l/" + pool + "/borrow"
	for name, c := range map[string]struct {
		path, body string
		subject    string // over NATS; "": over HTTP
		keyed      bool
	}{
		"borrow over HTTP":             {borrowed, borrow, "", true},
		"borrow over HTTP without key": {borrowed, borrow, "", false},
		"borrow over NATS":             {borrowed, borrow, subjects.PoolBorrow, true},
		"borrow over NATS without key": {borrowed, borrow, subjects.PoolBorrow, false},
		"call over HTTP":               {"/rpc", call, "", true},
		"call over NATS":               {"/rpc", call, subjects.RPC, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, func(c *config) { c.store = kvslots.Config{ResumeGrace: 10 * time.Minute} })
			d.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			held := d.want(t, "POST", c.path, c.body, 200, "")
			haunt := d.overHTTP
			if c.subject != "" {
				haunt = d.overNATS
			}
			leave := haunt(t, c.path, c.subject, c.body, c.keyed)
			gatewaytest.Eventually(t, "the ghosts wait", func() bool { return int(d.metric(t, "kvslots_waiters")) == ghosts })
			leave()
			left := 0 // NATS reports no end of a connection
			if c.subject != "" {
				left = ghosts
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				d.want(t, "POST", c.path, c.body, 200, "")
			}()
			gatewaytest.Eventually(t, "the honest client waits", func() bool { return d.Lending.Open() == left+1 })
			before, began := d.metric(t, "kvslots_grants_total"), time.Now()
			if c.path == borrowed {
				var lease struct{ Lease string }
				_ = json.Unmarshal([]byte(held), &lease) // then the return fails
				d.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.Lease+`"}`, 200, `"returned":true`)
			} else {
				d.want(t, "POST", "/rpc", free, 200, `"released":true`)
			}
			<-served
			t.Logf("served after %v", time.Since(began))
			if lent := d.metric(t, "kvslots_grants_total") - before - 1; lent > float64(ghosts)/20 && c.subject == "" {
				t.Errorf("%v ghosts were granted something", lent)
			}
		})
	}
}

// overHTTP sends a crowd of requests, which leave disconnects.
func (d *target) overHTTP(t *testing.T, path, _, body string, keyed bool) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client, wg := http.Client{Transport: &http.Transport{}}, sync.WaitGroup{}
	for i := range ghosts {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Addr+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			if keyed {
				r.Header.Set(wire.RequestKeyHeader, fmt.Sprint("ghost-", i))
			}
			if resp, err := client.Do(r); err == nil {
				_ = resp.Body.Close()
				t.Errorf("a ghost was answered %d", resp.StatusCode)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func (d *target) overNATS(t *testing.T, _, subject, body string, keyed bool) (leave func()) {
	nc := d.connect(t)
	inbox := nc.NewInbox()
	kvslotstest.Must(t, kvslotstest.Err(nc.SubscribeSync(inbox+".*")))
	for i := range ghosts {
		m := nats.NewMsg(subject)
		m.Reply, m.Data = fmt.Sprint(inbox, ".", i), []byte(body)
		if keyed {
			m.Header.Set(wire.RequestKeyHeader, fmt.Sprint("ghost-", i))
		}
		kvslotstest.Must(t, nc.PublishMsg(m))
	}
	return nc.Close
}
