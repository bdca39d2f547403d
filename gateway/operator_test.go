package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// operated is a gateway with a store, whose answers are checked against openapi.json.
type operated struct {
	*gatewaytest.Gateway
	store *kvslots.Store
}

func openOperated(t *testing.T, tokens *gateway.Tokens) *operated {
	t.Helper()
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
	var functions forrst.Functions
	functions.Handle("f.f", func(context.Context, forrst.Call) (any, error) { return nil, nil })
	g := gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Tokens = tokens
		cfg.Dialects = []gateway.Dialect{
			gateway.NewLibrary(store, cfg.Lending, cfg.Logger),
			gateway.NewDflockd(store, gateway.DflockdConfig{Lending: cfg.Lending, Turns: gateway.NewTurns(), Logger: cfg.Logger}),
			forrst.New(store, forrst.Config{Functions: &functions, Lending: cfg.Lending, Tokens: tokens, Logger: cfg.Logger}),
		}
	})
	return &operated{g, store}
}

// ask sends a request, wants a status, and decodes the answer. It returns the name of the error.
func (g *operated) ask(t *testing.T, code int, into any, method, path, body string, header ...string) string {
	t.Helper()
	got, text, answered := g.Do(t, method, path, body, header...)
	if got != code {
		t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, code)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s %s: %s: %v", method, path, text, err)
		}
	}
	return answered.Get(wire.ErrorHeader)
}

// borrow borrows a slot, and returns the lease with its secrets.
func (g *operated) borrow(t *testing.T, pool uuid.UUID, label string) (lease wire.Lease) {
	t.Helper()
	body := wire.Borrow.Body(&wire.Params{TTL: time.Minute, Label: label})
	g.ask(t, 200, &lease, "POST", "/l/"+pool.String()+"/borrow", string(body))
	return lease
}

// All ways to name a pool have the same reads and verbs.
func TestDoorsToAPool(t *testing.T) {
	g := openOperated(t, nil)
	for _, byHash := range []bool{false, true} {
		pool := uuid.New()
		g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":3,"name":"screens"}`)
		base := "/v1/pools/" + pool.String()
		if byHash {
			base = "/v1/pools/" + kvslots.ByID(pool).Hash()
		}
		lease := g.borrow(t, pool, "ci@build7")
		g.borrow(t, pool, "")
		var state kvslots.State
		g.ask(t, 200, &state, "PUT", base+"/positions/2", `{"out":true,"reason":"screen broken"}`)
		if state != (kvslots.State{Count: 3, InUse: 2}) {
			t.Errorf("%+v", state)
		}
		var page kvslots.PoolDetail
		g.ask(t, 200, &page, "GET", base+"/leases?limit=1", "")
		if len(page.Holders) != 1 || page.Holders[0].Label != "ci@build7" || page.Holders[0].Fence != lease.Fence || page.NextFrom != 1 || page.Waiters != nil ||
			len(page.OutOfService) != 1 || page.OutOfService[0] != (kvslots.OutOfService{Position: 2, Reason: "screen broken"}) || page.Name != "screens" {
			t.Errorf("%+v", page)
		}
		page = kvslots.PoolDetail{}
		g.ask(t, 200, &page, "GET", fmt.Sprintf("%s/leases?limit=1&from=%d", base, 1), "")
		if len(page.Holders) != 1 || page.Holders[0].Position != 1 || page.NextFrom != 0 {
			t.Errorf("%+v", page)
		}
		var waiting sync.WaitGroup
		for n := range 3 {
			waiting.Go(func() {
				body := fmt.Sprintf(`{"ttl":60,"wait":60,"label":"waits %d"}`, n)
				g.Do(t, "POST", "/l/"+pool.String()+"/borrow", body, wire.RequestKeyHeader, fmt.Sprint("key ", n))
			})
			gatewaytest.Eventually(t, "the borrow waits", func() bool {
				var line kvslots.PoolDetail
				g.ask(t, 200, &line, "GET", base+"/line", "")
				return line.Waiting == n+1
			})
		}
		page = kvslots.PoolDetail{}
		g.ask(t, 200, &page, "GET", base+"/line?after=1&limit=1", "")
		if len(page.Waiters) != 1 || page.Waiters[0].Place != 2 || page.Waiters[0].Label != "waits 1" || page.NextAfter != 2 || page.Holders != nil {
			t.Errorf("%+v", page)
		}
		var place wire.Place
		g.ask(t, 200, &place, "GET", "/v1/pools/self/line/self", "", wire.PoolHeader, pool.String(), wire.RequestKeyHeader, "key 2")
		if place.Waiting == nil || place.Waiting.Place != 3 || place.Lease != nil {
			t.Errorf("%+v", place)
		}
		var ended wire.Evicted
		evict := fmt.Sprintf("%s/leases/0?fence=%d", base, lease.Fence)
		if name := g.ask(t, 409, nil, "DELETE", fmt.Sprintf("%s/leases/0?fence=%d", base, lease.Fence-1), ""); name != "other_holder" {
			t.Error(name)
		}
		g.ask(t, 200, &state, "PUT", base+"/pause", `{"out":true,"reason":"night"}`) // so that nobody gets the slot
		g.ask(t, 200, &ended, "DELETE", evict, "")
		if ended.Evicted.Label != "ci@build7" || ended.Evicted.Fence != lease.Fence {
			t.Errorf("%+v", ended)
		}
		if name := g.ask(t, 404, nil, "DELETE", evict, ""); name != "not_held" {
			t.Error(name)
		}
		if name := g.ask(t, 404, nil, "GET", "/v1/pools/self/leases/self", "", wire.PoolHeader, pool.String(), wire.LeaseHeader, lease.Lease.String()); name != "not_held" {
			t.Error(name)
		}
		var shown wire.Inspection
		g.ask(t, 200, &shown, "GET", "/l/"+pool.String(), "")
		if !shown.Paused || shown.PauseReason != "night" || shown.Name != "screens" || shown.Hash.String() != kvslots.ByID(pool).Hash() || len(shown.OutOfService) != 1 {
			t.Errorf("%+v", shown)
		}
		g.ask(t, 200, &state, "PUT", base+"/pause", `{"out":false}`)
		g.ask(t, 200, &state, "PUT", base+"/positions/2", `{"out":false}`)
		if name := g.ask(t, 404, nil, "PUT", base+"/positions/3", `{"out":true}`); name != "no_position" {
			t.Error(name)
		}
		g.ask(t, 200, nil, "DELETE", "/l/"+pool.String(), "") // ends the waits
		waiting.Wait()
		for _, path := range []string{"/leases", "/line"} {
			if name := g.ask(t, 404, nil, "GET", base+path, ""); name != "no_pool" {
				t.Error(name)
			}
		}
	}
	logs := g.Logs.String()
	for _, line := range []string{
		`"message":"an operator has ended a lease","pool_hash":`, `"position":0,"fence":`, `"label":"ci@build7"`,
		`"message":"an operator has taken a position out of service","pool_hash":`, `"reason":"screen broken"`,
		`"message":"an operator has put a position back into service"`,
		`"message":"an operator has taken a pool out of service"`, `"message":"an operator has put a pool back into service"`,
	} {
		if strings.Count(logs, line) < 2 {
			t.Errorf("no %s in the log:\n%s", line, logs)
		}
	}
}

// Locks and semaphores are read and ended by name.
func TestDoorsToNames(t *testing.T) {
	g := openOperated(t, nil)
	var session wire.Session
	g.ask(t, 200, &session, "POST", "/v1/sessions", `{"label":"of the session"}`)
	in := []string{wire.SessionHeader, session.ID}
	g.ask(t, 200, nil, "POST", "/v1/locks/deploy", `{"acquire_timeout_s":0}`, in...)
	g.ask(t, 200, nil, "POST", "/v1/semaphores/build", `{"acquire_timeout_s":0,"limit":2,"label":"of the call"}`, in...)
	for name, label := range map[string]string{"deploy": "of the session", "build": "of the call"} {
		var d kvslots.PoolDetail
		base := "/v1/pools/" + name
		g.ask(t, 200, &d, "GET", base+"?leases=1&line=1", "")
		if len(d.Holders) != 1 || d.Holders[0].Label != label || d.Holders[0].Owner == 0 || d.Waiters == nil || d.Key != name {
			t.Errorf("%s: %+v", base, d)
		}
		g.ask(t, 200, nil, "GET", base+"/leases", "")
		g.ask(t, 200, nil, "GET", base+"/line", "")
		g.ask(t, 200, nil, "PUT", base+"/pause", `{"out":true}`)
		g.ask(t, 200, nil, "PUT", base+"/positions/0", `{"out":true,"reason":"x"}`)
		g.ask(t, 200, nil, "DELETE", fmt.Sprintf("%s/leases/0?fence=%d", base, d.Holders[0].Fence), "")
	}
	if name := g.ask(t, 404, nil, "GET", "/v1/pools/other", ""); name != "no_pool" {
		t.Error(name)
	}
	var list wire.PoolList
	g.ask(t, 200, &list, "GET", "/v1/pools?q=BUILD", "")
	if len(list.Pools) != 1 || list.Pools[0].Type != "semaphore" || list.Pools[0].Key != "build" || !list.Pools[0].Paused || list.Pools[0].Out != 1 {
		t.Errorf("%+v", list)
	}
}

// A call under a lock of Forrst has a label, too; its lock is reached by its hash.
func TestLabelOfACall(t *testing.T) {
	g := openOperated(t, nil)
	call := func(code int, label string) {
		t.Helper()
		g.ask(t, code, nil, "POST", "/rpc", `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","call":{"function":"f.f"},
			"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","ttl":{"value":1,"unit":"minute"},"auto_release":false,"label":"`+label+`"}}]}`)
	}
	call(400, `\u202e`)
	call(200, "ci@build7")
	var list wire.PoolList
	g.ask(t, 200, &list, "GET", "/v1/pools?q=lock:f.f:k", "")
	if len(list.Pools) != 1 || list.Pools[0].Dialect != "forrst" || list.Pools[0].Type != "lock" {
		t.Fatalf("%+v", list)
	}
	var d kvslots.PoolDetail
	base := "/v1/pools/" + list.Pools[0].Hash.String()
	g.ask(t, 200, &d, "GET", base, "")
	if len(d.Holders) != 1 || d.Holders[0].Label != "ci@build7" {
		t.Fatalf("%+v", d)
	}
	g.ask(t, 200, nil, "DELETE", fmt.Sprintf("%s/leases/0?fence=%d", base, d.Holders[0].Fence), "")
	call(200, "")
}

// The list of pools has an order and pages.
func TestListOfPools(t *testing.T) {
	g := openOperated(t, nil)
	for n := range 5 {
		pool := uuid.New()
		g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), fmt.Sprintf(`{"count":5,"name":"pool %d"}`, n))
		for range n {
			g.borrow(t, pool, "")
		}
	}
	after := ""
	for want := 4; want >= 0; want-- {
		var list wire.PoolList
		g.ask(t, 200, &list, "GET", "/v1/pools?sort=in_use&limit=1&after="+url.QueryEscape(after), "")
		if len(list.Pools) != 1 || list.Pools[0].InUse != want || list.Pools[0].Name != fmt.Sprint("pool ", want) || (list.Next == "") != (want == 0) {
			t.Fatalf("%d: %+v", want, list)
		}
		after = list.Next
	}
	var list wire.PoolList
	g.ask(t, 200, &list, "GET", "/v1/pools?contended=true", "")
	if len(list.Pools) != 0 {
		t.Errorf("%+v", list)
	}
}

// A name that only one pool has stands for its hash, and so does the beginning of the hash.
func TestNamesOfPools(t *testing.T) {
	g := openOperated(t, nil)
	pool := uuid.New()
	hash := kvslots.ByID(pool).Hash()
	g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":2,"name":"test accounts"}`)
	for _, text := range []string{"test%20accounts", hash[:8], strings.ToUpper(hash[:20])} {
		var detail kvslots.PoolDetail
		g.ask(t, 200, &detail, "GET", "/v1/pools/"+text, "")
		g.ask(t, 200, nil, "PUT", "/v1/pools/"+text+"/positions/1", `{"out":true}`)
		g.ask(t, 200, nil, "PUT", "/v1/pools/"+text+"/pause", `{"out":false}`)
		g.ask(t, 404, nil, "DELETE", "/v1/pools/"+text+"/leases/0?fence=1", "")
		if detail.Hash.String() != hash {
			t.Errorf("%s is %s", text, detail.Hash)
		}
	}
	g.borrow(t, pool, "")
	if _, text, _ := g.Do(t, "GET", "/v1/pools/"+hash+"?leases=0&line=0", ""); strings.Contains(text, "leases") {
		t.Error(text)
	}
	for _, text := range []string{"accounts", hash[:7], "nightly"} {
		g.ask(t, 404, nil, "GET", "/v1/pools/"+text, "")
	}
}

// Invalid requests name the field.
func TestOperatorRefusals(t *testing.T) {
	g := openOperated(t, nil)
	pool, byHash := "/v1/pools/"+uuid.NewString(), "/v1/pools/"+strings.Repeat("0", 32)
	for range 2 {
		g.ask(t, 200, nil, "PUT", "/l/"+uuid.NewString(), `{"count":1,"name":"twice"}`)
	}
	for _, c := range []struct{ method, path, body, field string }{
		{"GET", "/v1/pools?sort=size", "", "sort"},
		{"GET", "/v1/pools?limit=0", "", "limit"},
		{"GET", "/v1/pools?limit=1001", "", "limit"},
		{"GET", "/v1/pools?limit=1&limit=2", "", "limit"},
		{"GET", "/v1/pools?after=x", "", "after"},
		{"GET", "/v1/pools?contended=yes", "", "contended"},
		{"GET", "/v1/pools?size=1", "", "query"},
		{"GET", "/v1/pools?%zz", "", "query"},
		{"GET", "/v1/pools/twice", "", "ref"},
		{"GET", "/v1/pools/" + strings.Repeat("x", 513), "", "ref"},
		{"GET", "/v1/pools/a%20b/leases/self", "", "id"},
		{"GET", byHash + "?leases=-1", "", "leases"},
		{"GET", byHash + "?line=x", "", "line"},
		{"GET", byHash + "/leases?from=+1", "", "from"},
		{"GET", pool + "/line?after=01", "", "after"},
		{"GET", pool + "/leases/self", "", "header " + wire.LeaseHeader},
		{"GET", pool + "/line/self", "", "header " + wire.RequestKeyHeader},
		{"DELETE", pool + "/leases/0", "", "fence"},
		{"DELETE", pool + "/leases/0?fence=9007199254740992", "", "fence"},
		{"DELETE", pool + "/leases/x?fence=1", "", "position"},
		{"DELETE", pool + "/leases/-1?fence=1", "", "position"},
		{"DELETE", pool + "/leases/0?fence=1&position=1", "", "position"},
		{"PUT", pool + "/positions/x", `{"out":true}`, "position"},
		{"PUT", pool + "/positions/0", `{}`, "out"},
		{"PUT", pool + "/positions/0", `{"out":"true"}`, "out"},
		{"PUT", pool + "/positions/0", `{"out":true,"position":1}`, "position"},
		{"PUT", pool + "/positions/0", `{"out":true,"why":"x"}`, "body"},
		{"PUT", byHash + "/pause", `{"out":true,"reason":1}`, "reason"},
		{"PUT", byHash + "/pause", `{"out":true,"position":1}`, "body"},
	} {
		code, text, header := g.Do(t, c.method, c.path, c.body)
		if code != 400 || header.Get(wire.FieldHeader) != c.field {
			t.Errorf("%s %s %s: %d %s, field %q, want %q", c.method, c.path, c.body, code, text, header.Get(wire.FieldHeader), c.field)
		}
	}
}

// Labels, names and reasons that people cannot read are refused by each request, and markup is only
// text.
func TestHostileLabels(t *testing.T) {
	g := openOperated(t, nil)
	pool := uuid.New()
	var session wire.Session
	g.ask(t, 200, &session, "POST", "/v1/sessions", "")
	doors := []struct{ method, path, field, body string }{
		{"PUT", "/l/" + pool.String(), "name", `{"count":9,"name":%s}`},
		{"POST", "/l/" + pool.String() + "/borrow", "label", `{"ttl":60,"label":%s}`},
		{"PUT", "/v1/pools/" + pool.String() + "/positions/8", "reason", `{"out":true,"reason":%s}`},
		{"PUT", "/v1/pools/" + pool.String() + "/pause", "reason", `{"out":true,"reason":%s}`},
		{"POST", "/v1/sessions", "label", `{"label":%s}`},
		{"POST", "/v1/locks/%d", "label", `{"acquire_timeout_s":0,"label":%s}`},
		{"POST", "/v1/locks/%d/enqueue", "label", `{"label":%s}`},
		{"POST", "/v1/semaphores/s%d", "label", `{"acquire_timeout_s":0,"limit":9,"label":%s}`},
	}
	n := 0
	ask := func(text string) (codes []int, fields []string) {
		for _, door := range doors {
			path := door.path
			if n++; strings.Contains(path, "%d") {
				path = fmt.Sprintf(path, n)
			}
			code, _, header := g.Do(t, door.method, path, fmt.Sprintf(door.body, text), wire.SessionHeader, session.ID)
			codes, fields = append(codes, code), append(fields, header.Get(wire.FieldHeader))
		}
		return codes, fields
	}
	for _, text := range []string{`"a\nb"`, `"\u0000"`, `"a\u202eb"`, `"\u200b"`, `"\ud800"`, `"` + strings.Repeat("é", 65) + `"`, `1`, `null`, `{}`} {
		codes, fields := ask(text)
		for i, door := range doors {
			if codes[i] != 400 || fields[i] != door.field {
				t.Errorf("%s %s %s: %d, field %q", door.method, door.path, text, codes[i], fields[i])
			}
		}
	}
	const hostile = `<img src=x onerror="alert('1')">\u0026 é`
	if codes, _ := ask(`"` + strings.ReplaceAll(hostile, `"`, `\"`) + `"`); fmt.Sprint(codes) != "[200 200 200 200 200 200 200 200]" {
		t.Fatal(codes)
	}
	for _, path := range []string{"/leases", "/line", ""} {
		_, text, header := g.Do(t, "GET", "/v1/pools/"+pool.String()+path, "")
		if path != "/line" && !strings.Contains(text, "<img") || strings.Contains(text, `\u00`) || header.Get("Content-Type") != "application/json" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s", path, text)
		}
	}
	var page kvslots.PoolDetail
	g.ask(t, 200, &page, "GET", "/v1/pools/"+pool.String()+"/leases", "")
	want := strings.ReplaceAll(hostile, `\u0026`, "&")
	if len(page.Holders) != 1 || page.Holders[0].Label != want || page.Name != want || page.PauseReason != want {
		t.Errorf("%+v", page)
	}
	g.ask(t, 200, nil, "DELETE", fmt.Sprintf("/v1/pools/%s/leases/0?fence=%d", pool, page.Holders[0].Fence), "")
	for line := range strings.Lines(g.Logs.String()) {
		var decoded struct{ Label, Message string }
		if err := json.Unmarshal([]byte(line), &decoded); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if decoded.Message == "an operator has ended a lease" && decoded.Label != want {
			t.Errorf("%q", line)
		}
	}
}

// The token of readers reads all, and changes nothing.
func TestReadToken(t *testing.T) {
	tokens := gateway.NewTokens()
	tokens.Replace(gateway.Token{Token: "hunter1"}, gateway.Token{Token: "hunter2", ReadOnly: true})
	g := openOperated(t, tokens)
	full, reader := []string{"Authorization", "Bearer hunter1"}, []string{"Authorization", "Bearer hunter2"}
	pool := uuid.New()
	secret, byID, byHash := "/l/"+pool.String(), "/v1/pools/"+pool.String(), "/v1/pools/"+kvslots.ByID(pool).Hash()
	g.ask(t, 200, nil, "PUT", secret, `{"count":1}`, full...)
	for _, path := range []string{"/v1/pools", "/v1/stats", "/metrics", secret, byID + "/leases", byHash, byHash + "/leases", byHash + "/line"} {
		g.ask(t, 200, nil, "GET", path, "", reader...)
		if name := g.ask(t, 401, nil, "GET", path, ""); name != "unauthorized" {
			t.Errorf("%s: %s", path, name)
		}
	}
	for method, paths := range map[string][]string{
		"PUT":    {secret, byHash + "/pause", byHash + "/positions/0", byID + "/pause", "/v1/pools/k/pause"},
		"DELETE": {secret, byHash + "/leases/0?fence=1", "/v1/pools/k/leases/0?fence=1"},
		"POST":   {secret + "/borrow", "/v1/sessions", "/v1/locks/k", "/rpc"},
	} {
		for _, path := range paths {
			if name := g.ask(t, 403, nil, method, path, `{}`, reader...); path != "/rpc" && name != "read_only" {
				t.Errorf("%s %s: %s", method, path, name)
			}
		}
	}
	if strings.Contains(g.Logs.String(), "operator") {
		t.Error("something was changed")
	}
}

// A refused or timed out request learns its place in line.
func TestPlaceHeader(t *testing.T) {
	g := openOperated(t, nil)
	pool := uuid.New()
	g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":1}`)
	g.borrow(t, pool, "")
	var session wire.Session
	g.ask(t, 200, &session, "POST", "/v1/sessions", "")
	if _, _, err := g.store.CreateSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.ask(t, 200, nil, "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`, wire.SessionHeader, session.ID)
	g.ask(t, 200, &session, "POST", "/v1/sessions", "")
	for _, c := range []struct {
		code       int
		path, body string
	}{
		{409, "/l/" + pool.String() + "/borrow", `{"ttl":1}`},
		{409, "/l/" + pool.String() + "/borrow", `{"ttl":1,"wait":1}`},
		{200, "/v1/locks/k", `{"acquire_timeout_s":0}`},
		{200, "/v1/locks/k", `{"acquire_timeout_s":1}`},
	} {
		code, text, header := g.Do(t, "POST", c.path, c.body, wire.SessionHeader, session.ID)
		if code != c.code || header.Get(wire.PlaceHeader) != "1" {
			t.Errorf("%s %s: %d %s, place %q", c.path, c.body, code, text, header.Get(wire.PlaceHeader))
		}
	}
}

// To read one pool costs what the pool holds: among 1,000 pools, no more than alone.
func TestCostOfOnePool(t *testing.T) {
	const others = 1000
	g := openOperated(t, nil)
	pool := uuid.New()
	g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":10}`)
	for range 10 {
		g.borrow(t, pool, "ci@build7")
	}
	page := kvslots.DetailPage{MaxHolders: 100, MaxWaiters: 100}
	cost := func() (allocations float64) {
		return testing.AllocsPerRun(100, func() {
			if d, err := g.store.ReadPool(t.Context(), kvslots.ByID(pool), page); err != nil || len(d.Holders) != 10 {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	alone := cost()
	var registering sync.WaitGroup
	for range 50 {
		registering.Go(func() {
			for range others / 50 {
				if _, err := g.store.Register(t.Context(), uuid.New(), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	registering.Wait()
	if among := cost(); among > 2*alone+50 {
		t.Errorf("%v allocations among %d pools, %v alone", among, others, alone)
	} else {
		t.Logf("%v allocations among %d pools, %v alone", among, others, alone)
	}
}

// An eviction is noticed by the holder, who may ask.
func TestHolderAsks(t *testing.T) {
	g := openOperated(t, nil)
	pool := uuid.New()
	g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":1}`)
	lease := g.borrow(t, pool, "me")
	self := []string{wire.PoolHeader, pool.String(), wire.LeaseHeader, lease.Lease.String()}
	var mine kvslots.HolderStats
	g.ask(t, 200, &mine, "GET", "/v1/pools/self/leases/self", "", self...)
	if mine.Label != "me" || mine.Fence != lease.Fence || mine.ExpiresIn <= 0 || time.Duration(mine.ExpiresIn) > time.Minute {
		t.Errorf("%+v", mine)
	}
}
