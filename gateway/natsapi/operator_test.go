package natsapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Over NATS the id of a pool needs no token, and neither does the name of a lock or a semaphore for a read. Anything else needs
// that of a gateway that has one.
func TestOperatorTokens(t *testing.T) {
	srv, store := openStore(t)
	tokens := gateway.NewTokens()
	tokens.Replace(gateway.Token{Token: "hunter1"}, gateway.Token{Token: "hunter2", ReadOnly: true})
	d := startService(t, srv, store, func(cfg *natsapi.Config) {
		cfg.Sessions, cfg.Turns, cfg.Tokens = store, gateway.NewTurns(), tokens
	})
	ctx, pool := t.Context(), uuid.MustParse(poolA)
	kvslotstest.Must(t, kvslotstest.Err(store.Register(ctx, pool, 2, kvslots.WithName("accounts"))))
	lease, err := store.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithRequestKey("key"))
	kvslotstest.Must(t, err)
	session, _, err := store.CreateSession(ctx)
	kvslotstest.Must(t, err)
	grant, err := store.Acquire(ctx, session, kvslots.Lock("deploy"), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(store.Acquire(ctx, session, kvslots.Semaphore("build", 2), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))))
	hash := kvslots.ByID(pool).Hash()
	byID, byHash, byDigits, byTitle := `{"ref":"`+poolA+`"%s}`, `{"ref":"`+hash+`"%s}`, `{"ref":"`+hash[:8]+`"%s}`, `{"ref":"accounts"%s}`
	byKey, bySemaphore, unused := `{"ref":"deploy"%s}`, `{"ref":"build"%s}`, `{"ref":"unused"%s}`
	lockHash := `{"ref":"` + kvslots.ByName("deploy").Hash() + `"%s}`
	const out, in, evict, limit = `,"out":true,"reason":"r"`, `,"out":false`, `,"position":0,"fence":1`, `,"limit":3`
	for _, c := range []struct {
		op, body           string
		none, read, access string // the status without a token, with that of readers, and with the other one
	}{
		{"pools", `{}`, "401", "200", "200"},
		{"read", fmt.Sprintf(byID, ""), "200", "200", "200"},
		{"read", fmt.Sprintf(byHash, ""), "401", "200", "200"},
		{"read", fmt.Sprintf(byDigits, ""), "401", "200", "200"},
		{"read", fmt.Sprintf(byTitle, ""), "401", "200", "200"},
		{"read", fmt.Sprintf(byKey, `,"leases":1,"line":0`), "200", "200", "200"},
		{"read", fmt.Sprintf(bySemaphore, ""), "200", "200", "200"},
		{"read", fmt.Sprintf(lockHash, ""), "401", "200", "200"},
		{"read", fmt.Sprintf(unused, ""), "401", "404", "404"},
		{"evict", fmt.Sprintf(byID, evict), "409", "409", "409"},
		{"evict", fmt.Sprintf(byHash, evict), "401", "403", "409"},
		{"evict", fmt.Sprintf(byTitle, evict), "401", "403", "409"},
		{"evict", fmt.Sprintf(byKey, evict), "401", "403", "409"},
		{"out", fmt.Sprintf(byID, `,"position":0`+out), "200", "200", "200"},
		{"out", fmt.Sprintf(byHash, `,"position":0`+out), "401", "403", "200"},
		{"out", fmt.Sprintf(byTitle, `,"position":0`+out), "401", "403", "200"},
		{"out", fmt.Sprintf(byKey, `,"position":1`+out), "401", "403", "404"},
		{"pause", fmt.Sprintf(byID, out), "200", "200", "200"},
		{"pause", fmt.Sprintf(byHash, in), "401", "403", "200"},
		{"pause", fmt.Sprintf(byTitle, in), "401", "403", "200"},
		{"pause", fmt.Sprintf(byKey, in), "401", "403", "200"},
		{"pause", fmt.Sprintf(unused, out), "401", "403", "200"},
		{"pause", fmt.Sprintf(unused, in), "401", "403", "200"},
		{"limit", fmt.Sprintf(byID, limit), "409", "409", "409"},
		{"limit", fmt.Sprintf(byHash, limit), "401", "403", "409"},
		{"limit", fmt.Sprintf(byKey, limit), "401", "403", "409"},
		{"limit", fmt.Sprintf(bySemaphore, limit), "401", "403", "200"},
		{"holder", fmt.Sprintf(byID, `,"lease":"`+lease.ID().String()+`"`), "200", "200", "200"},
		{"place", fmt.Sprintf(byID, ""), "200", "200", "200"},
		{"holder", fmt.Sprintf(byKey, `,"session":"`+session+`","token":"`+grant.Token+`"`), "200", "200", "200"},
		{"read", `{}`, "400", "400", "400"},
		{"read", `{"ref":"` + poolA + `","ref":"deploy"}`, "400", "400", "400"},
		{"read", `{"ref":"` + poolA + `","key":"deploy"}`, "400", "400", "400"},
		{"read", `{"ref":""}`, "400", "400", "400"},
		{"read", `{"ref":1}`, "400", "400", "400"},
		{"read", `{"ref":"a b"}`, "401", "404", "404"},
		{"holder", `{"ref":"deploy","token":"` + grant.Token + `"}`, "400", "400", "400"},
		{"read", fmt.Sprintf(byID, `,"leases":1001`), "400", "400", "400"},
		{"evict", fmt.Sprintf(byID, `,"position":"0","fence":1`), "400", "400", "400"},
	} {
		for token, want := range map[string]string{"": c.none, "Bearer hunter2": c.read, "Bearer hunter1": c.access} {
			got, answer := d.ask(t, c.op, c.body, wire.AuthorizationHeader, token, wire.RequestKeyHeader, "key")
			if got != want {
				t.Errorf("%s %s with %q: %s %s, want %s", c.op, c.body, token, got, answer, want)
			}
		}
	}
	var detail kvslots.PoolDetail
	_, answer := d.ask(t, "read", fmt.Sprintf(byID, ""))
	if err := json.Unmarshal([]byte(answer), &detail); err != nil || detail.Out != 1 || detail.OutOfService[0].Reason != "r" || detail.Holders == nil || detail.Waiters == nil {
		t.Errorf("%s, %v", answer, err)
	}
	if !strings.Contains(d.logs.String(), `"message":"an operator has taken a position out of service","pool_hash":`) {
		t.Error("no line in the log")
	}
}

// Names of any length do not make a list longer than a message may be.
func TestListsOfLongNames(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store)
	session, _, err := store.CreateSession(t.Context())
	kvslotstest.Must(t, err)
	const names = 250
	for i := range names {
		key := fmt.Sprintf("%03d", i) + strings.Repeat("<\"", 126)
		kvslotstest.Must(t, kvslotstest.Err(store.Acquire(t.Context(), session, kvslots.Lock(key), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))))
		kvslotstest.Must(t, kvslotstest.Err(store.TakeOut(t.Context(), kvslots.ByName(key), kvslots.OutOfService{Position: kvslots.WholePool, Reason: strings.Repeat("\"", kvslots.MaxLabel)})))
	}
	seen, after, pages := map[string]bool{}, "", 0
	for more := true; more; pages++ {
		code, answer := d.ask(t, "pools", `{"limit":1000,"after":"`+after+`"}`)
		var list wire.PoolList
		if err := json.Unmarshal([]byte(answer), &list); err != nil || code != "200" || len(answer) > wire.MaxAnswer+100 {
			t.Fatalf("%s, %d bytes, %v", code, len(answer), err)
		}
		for _, p := range list.Pools {
			seen[p.Key] = true
		}
		after, more = list.Next, list.Next != ""
	}
	if len(seen) != names || pages < 3 {
		t.Errorf("%d names on %d pages", len(seen), pages)
	}
}
