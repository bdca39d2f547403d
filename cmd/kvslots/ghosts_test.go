package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const ghostCrowd = 1000

// Clients have joined a line, each with a request key of its own, and are gone. Their places, which
// are kept for ten minutes, delay no client that waits behind them, and no slot is lent to one of them.
func TestServeGhosts(t *testing.T) {
	t.Parallel()
	const (
		borrow  = `{"ttl":600,"wait":60}`
		block   = `{"key":"k","scope":"global","auto_release":false,"ttl":{"value":600,"unit":"second"},"block":{"value":60,"unit":"second"}}`
		release = "urn:cline:forrst:ext:atomic-lock:fn:force-release"
	)
	borrowed := "/l/" + pool + "/borrow"
	call := rpc("a.b", `{}`, block)
	for name, c := range map[string]struct {
		path, body string
		ghosts     func(t *testing.T, p *program) (leave func())
		free       func(t *testing.T, p *program, held string)
	}{
		"http": {borrowed, borrow, func(t *testing.T, p *program) func() { return p.ghosts(t, borrowed, borrow) }, returnBorrowed},
		"nats": {borrowed, borrow, func(t *testing.T, p *program) func() {
			return p.ghostsOverNATS(t, subjects.PoolBorrow, `{"id":"`+pool+`","ttl":600,"wait":60}`)
		}, returnBorrowed},
		"rpc over nats": {"/rpc", call, func(t *testing.T, p *program) func() { return p.ghostsOverNATS(t, subjects.RPC, call) }, func(t *testing.T, p *program, _ string) {
			p.want(t, "POST", "/rpc", rpc(release, `{"key":"lock:k"}`, ""), 200, `"released":true`)
		}},
		"rpc": {"/rpc", call, func(t *testing.T, p *program) func() { return p.ghosts(t, "/rpc", call) }, func(t *testing.T, p *program, _ string) {
			p.want(t, "POST", "/rpc", rpc(release, `{"key":"lock:k"}`, ""), 200, `"released":true`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--nats-addr", "127.0.0.1:0", "--resume-grace", "10m")
			serveFunction(t, p.natsURL(t), "a.b", done)
			p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			_, held := p.ask(t, "POST", c.path, c.body)
			leave := c.ghosts(t, p)
			waitFor(t, func() bool { return p.metric(t, "kvslots_waiters") == ghostCrowd })
			leave()
			served := make(chan struct{})
			go func() {
				defer close(served)
				p.want(t, "POST", c.path, c.body, 200, "")
			}()
			waitFor(t, func() bool { return p.metric(t, "kvslots_waiters") == ghostCrowd+1 })
			began := time.Now()
			c.free(t, p, held)
			<-served
			t.Logf("served %v after the slot was free", time.Since(began))
		})
	}
}

func returnBorrowed(t *testing.T, p *program, held string) {
	var lease struct{ Lease string }
	if err := json.Unmarshal([]byte(held), &lease); err != nil {
		t.Fatal(err)
	}
	p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.Lease+`"}`, 200, `"returned":true`)
}

// ghosts sends a crowd of requests over HTTP, which leave disconnects.
func (p *program) ghosts(t *testing.T, path, body string) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client, wg := http.Client{Transport: &http.Transport{}}, sync.WaitGroup{}
	for i := range ghostCrowd {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set(wire.RequestKeyHeader, fmt.Sprint("ghost-", i))
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

func (p *program) ghostsOverNATS(t *testing.T, subject, body string) (leave func()) {
	nc := connectNATS(t, p.natsURL(t))
	inbox := nc.NewInbox()
	if _, err := nc.SubscribeSync(inbox + ".*"); err != nil {
		t.Fatal(err)
	}
	for i := range ghostCrowd {
		m := nats.NewMsg(subject)
		m.Reply, m.Data = fmt.Sprint(inbox, ".", i), []byte(body)
		m.Header.Set(wire.RequestKeyHeader, fmt.Sprint("ghost-", i))
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	return nc.Close
}

// metric returns the value of a metric without labels.
func (p *program) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, text := p.ask(t, "GET", "/metrics", "")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
