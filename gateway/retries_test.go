package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// retries is a test of clients that lose answers and repeat their requests by key.
type retries struct {
	t        *testing.T
	gateways [3]atomic.Pointer[gatewaytest.Gateway]
	http     http.Client

	mu      sync.Mutex
	holders map[string]string // by slot, the request key that was told of it
	granted int
	resumed int // repeats that were answered with a lease
}

// ask sends a request to any of the gateways, and loses one answer in three. status is 0 then.
func (r *retries) ask(method, path, body, key, session string) (status int, answer string) {
	g := r.gateways[rand.IntN(len(r.gateways))].Load()
	request, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+g.Addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return 0, ""
	}
	if key != "" {
		request.Header.Set(wire.RequestKeyHeader, key)
	}
	if session != "" {
		request.Header.Set(wire.SessionHeader, session)
	}
	resp, err := r.http.Do(request)
	if err != nil { // the gateway is being restarted
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || rand.IntN(3) == 0 {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// untilGranted repeats a request with one key until it is granted, and returns the answer.
func (r *retries) untilGranted(path, body, session, granted string) (key, answer string) {
	key = uuid.NewString()
	for n := 0; ; n++ {
		status, answer := r.ask("POST", path, body, key, session)
		switch {
		case status == http.StatusOK && strings.Contains(answer, granted):
			r.mu.Lock()
			r.granted++
			if n > 0 {
				r.resumed++
			}
			r.mu.Unlock()
			return key, answer
		case status != 0 && status != http.StatusOK && status != http.StatusConflict && status < http.StatusInternalServerError:
			r.t.Errorf("%s: %d %s", path, status, answer)
			return key, ""
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
}

// hold records that a client holds a slot for a moment.
func (r *retries) hold(slot, key string) {
	r.mu.Lock()
	if o := r.holders[slot]; o != "" {
		r.t.Errorf("%s is held for two keys", slot)
	}
	r.holders[slot] = key
	r.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	r.mu.Lock()
	r.holders[slot] = ""
	r.mu.Unlock()
}

// giveBack repeats a request until its answer is not lost.
func (r *retries) giveBack(path, body, session string) {
	for {
		if status, _ := r.ask("POST", path, body, "", session); status != 0 && status < http.StatusInternalServerError {
			return
		}
	}
}

// 200 clients lose one answer in three, over three gateways of which one is restarted: for
// each key there is one slot at a time, and nothing is left at the end.
func TestRetriesByRequestKey(t *testing.T) {
	const clients, rounds, slots, names = 100, 3, 8, 4 // of pools, and as many of locks
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	r := &retries{t: t, holders: map[string]string{}}
	r.http.Transport = &http.Transport{MaxIdleConnsPerHost: 200}
	defer r.http.CloseIdleConnections()
	turns := gateway.NewTurns()
	open := func() (*gatewaytest.Gateway, *kvslots.Store, func()) {
		store, closeStore := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{ResumeGrace: time.Second})
		g := gatewaytest.Open(t, func(cfg *gateway.Config) {
			cfg.Lending.MaxWait = time.Second
			cfg.Dialects = []gateway.Dialect{
				gateway.NewLibrary(store, cfg.Lending, cfg.Logger),
				gateway.NewDflockd(store, gateway.DflockdConfig{Lending: cfg.Lending, Turns: turns, Logger: cfg.Logger}),
			}
		})
		return g, store, func() {
			g.Stop()
			closeStore()
		}
	}
	var store *kvslots.Store
	var stop [3]func()
	for i := range r.gateways {
		var g *gatewaytest.Gateway
		g, store, stop[i] = open()
		r.gateways[i].Store(g)
	}
	pool := "/l/" + uuid.NewString()
	if code, text, _ := r.gateways[0].Load().Do(t, "PUT", pool, fmt.Sprintf(`{"count":%d}`, slots)); code != http.StatusOK {
		t.Fatal(text)
	}

	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			for range rounds {
				key, answer := r.untilGranted(pool+"/borrow", `{"ttl":600,"wait":1}`, "", `"lease"`)
				var lease wire.Lease
				if err := json.Unmarshal([]byte(answer), &lease); err != nil {
					t.Error(err)
					return
				}
				r.hold(fmt.Sprint("position ", lease.Position), key)
				r.giveBack(pool+"/return", `{"lease":"`+lease.Lease.String()+`"}`, "")
			}
		})
		done.Go(func() {
			session, _, err := store.CreateSession(t.Context(), kvslots.WithIdle(time.Hour))
			if err != nil {
				t.Error(err)
				return
			}
			name := fmt.Sprint("/v1/locks/", i%names)
			for range rounds {
				key, answer := r.untilGranted(name, `{"lease_ttl_s":600,"acquire_timeout_s":1}`, session, `"ok"`)
				var grant wire.Grant
				if err := json.Unmarshal([]byte(answer), &grant); err != nil {
					t.Error(err)
					return
				}
				r.hold(name, key)
				r.giveBack(name+"/release", `{"token":"`+grant.Token+`"}`, session)
			}
		})
	}
	stop[0]() // with clients at work
	g, _, _ := open()
	r.gateways[0].Store(g)
	done.Wait()
	t.Logf("%d grants, of which %d after a repeat", r.granted, r.resumed)
	if r.granted != 2*clients*rounds || r.resumed == 0 {
		t.Error("the test shows nothing")
	}
	gatewaytest.Eventually(t, "nothing is left", func() bool {
		stats, err := store.Stats(t.Context())
		return err == nil && len(stats.Names) == 0 && len(stats.Pools) == 1 && stats.Pools[0].InUse == 0 && stats.Pools[0].Waiting == 0
	})
}
