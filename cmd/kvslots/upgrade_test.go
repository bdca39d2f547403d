package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// oldBinary names a kvslots of the release before, for the tests of rolling upgrades.
const oldBinary = "KVSLOTS_OLD_BINARY"

const (
	upgradePools = "77777777-2222-4333-8444-00000000000" // and a digit
	upgradeLong  = "77777777-2222-4333-8444-aaaaaaaaaaaa"
	longHolders  = 12
	phaseTime    = 6 * time.Second // of clients' work between two changes
)

// upgradeCounts are the counts of the pools for which clients contend.
var upgradeCounts = []int{1, 2, 4}

// Gateways of the release before are replaced one by one while clients work, and back, over
// one nats-server and over three. No slot is lent twice at a time, no lease is lost, and the
// bucket is updated once.
func TestSoakRollingUpgrade(t *testing.T) {
	old := os.Getenv(oldBinary)
	if old == "" {
		t.Skip("needs the binary of the release before in " + oldBinary)
	}
	start := map[byte]func(t *testing.T, args ...string) *gatewayProcess{
		'n': startGateway,
		'o': func(t *testing.T, args ...string) *gatewayProcess { return startBinary(t, old, args...) },
	}
	for _, plan := range []struct {
		name, first, then string // a letter a gateway; then which are replaced, in turn
		updates           int    // of the bucket
	}{
		{"upgrade", "ooo", "nnn", 1},
		{"a new one beside old ones, last", "oo", "+nnn", 1},
		{"old ones beside a new one", "n", "+o+onn", 0},
		{"upgrade, and back, and again", "ooo", "nnnooonnn", 1},
		{"downgrade", "nnn", "ooo", 0},
	} {
		for _, servers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, servers %d", plan.name, servers), func(t *testing.T) {
				u := &upgrade{t: t, releases: start, ledger: kvslotstest.NewLedger(), met: map[string]int{}, stop: make(chan struct{})}
				u.startNATS(servers)
				u.run(plan.first, plan.then)
				if u.updates != plan.updates {
					t.Errorf("the bucket was updated %d times, not %d", u.updates, plan.updates)
				}
			})
		}
	}
}

// upgrade is a set of gateways of two releases, and their clients.
type upgrade struct {
	t        *testing.T
	releases map[byte]func(t *testing.T, args ...string) *gatewayProcess
	args     []string
	ledger   *kvslotstest.Ledger
	stop     chan struct{}
	running  sync.WaitGroup
	updates  int

	mu       sync.Mutex
	gateways []*upgraded // nil while one is replaced
	met      map[string]int
	slowest  time.Duration
	granted  int
	last     time.Time     // of the grants
	longest  time.Duration // without a grant, since the last phase
	total    time.Duration // the longest one
}

// upgraded is a running gateway.
type upgraded struct {
	*gatewayProcess
	name string
}

func (u *upgrade) startNATS(servers int) {
	url := ""
	if servers == 1 {
		url = kvslotstest.Start(u.t, "").ClientURL()
	} else {
		url = kvslotstest.StartCluster(u.t).URL()
	}
	u.args = []string{"--nats-url", url, "--replicas", strconv.Itoa(servers), "--drain-wait", "500ms"}
}

func (u *upgrade) run(first, then string) {
	t := u.t
	for i := range first {
		u.gateways = append(u.gateways, nil)
		u.start(i, first[i])
	}
	for i, count := range upgradeCounts {
		u.must("PUT", "/l/"+upgradePools+strconv.Itoa(i), fmt.Sprintf(`{"count":%d}`, count))
	}
	u.must("PUT", "/l/"+upgradeLong, fmt.Sprintf(`{"count":%d}`, longHolders))
	t.Cleanup(u.end)
	for n := range longHolders {
		u.running.Go(func() { u.holder(rand.New(rand.NewPCG(1, uint64(n)))) })
	}
	for n := range 16 {
		u.running.Go(func() { u.borrower(rand.New(rand.NewPCG(2, uint64(n)))) })
	}
	for n := range 8 {
		u.running.Go(func() { u.locker(rand.New(rand.NewPCG(3, uint64(n)))) })
	}
	u.phase(first)
	place, add := 0, false
	for i := range then {
		if then[i] == '+' {
			add = true
			continue
		}
		if add {
			u.mu.Lock()
			u.gateways = append(u.gateways, nil)
			u.mu.Unlock()
			u.start(len(u.gateways)-1, then[i])
		} else {
			u.drain(place)
			u.start(place, then[i])
			place = (place + 1) % len(u.gateways)
		}
		add = false
		u.phase(fmt.Sprint(first, " then ", then[:i+1]))
	}
	u.end()
	u.nothingLeft()
	for i := range u.gateways {
		u.drain(i)
	}
	leases, wrong := u.ledger.Check()
	if len(wrong) > 0 {
		t.Errorf("%d violations, the first ones:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	t.Logf("%d leases, no grant for %v at most, longest call %v beyond its wait, answers: %v", leases, u.total, u.slowest, u.met)
}

// end stops the clients.
func (u *upgrade) end() {
	select {
	case <-u.stop:
	default:
		close(u.stop)
	}
	u.running.Wait()
}

// phase lets the clients work.
func (u *upgrade) phase(what string) {
	u.mu.Lock()
	before, met := u.granted, u.met
	u.met = map[string]int{}
	u.mu.Unlock()
	u.pause(phaseTime)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.t.Logf("%-16s %4d grants/s, none for %4d ms at most, answers %v, while replaced %v", what,
		int(float64(u.granted-before)/phaseTime.Seconds()), u.longest.Milliseconds(), u.met, met)
	u.total, u.longest = max(u.total, u.longest), 0
}

func (u *upgrade) start(i int, release byte) {
	u.t.Helper()
	p := u.releases[release](u.t, u.args...)
	p.eventually(u.t, "/ready", `"status":"ready"`)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gateways[i] = &upgraded{p, fmt.Sprintf("%c%d", release, i)}
}

// drain ends a gateway. Clients meet it while it drains.
func (u *upgrade) drain(i int) {
	u.t.Helper()
	u.mu.Lock()
	g := u.gateways[i]
	u.mu.Unlock()
	g.drain(u.t)
	u.updates += strings.Count(g.logs.String(), "earlier release")
	for line := range strings.Lines(g.logs.String()) {
		if strings.Contains(line, `"level":"warn"`) {
			u.t.Logf("%s: %s", g.name, strings.TrimSpace(line))
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gateways[i] = nil
}

// must asks any gateway until the answer is 200.
func (u *upgrade) must(method, path, body string) {
	u.t.Helper()
	for {
		if got := u.call(rand.New(rand.NewPCG(0, 0)), method, path, "", body, 0); got.code == 200 {
			return
		}
		u.pause(retryPace)
	}
}

// pause sleeps, and reports whether the clients go on.
func (u *upgrade) pause(d time.Duration) bool {
	select {
	case <-u.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// upgradeAnswer is an answer to a client.
type upgradeAnswer struct {
	code    int // 0: no gateway has answered
	by      string
	body    string
	unknown bool // whether an earlier try may have taken effect
	at      time.Time

	Lease    string
	Position int
	Fence    uint64
	Returned bool
	Status   string
	Token    string
	Session  string `json:"session_id"`
}

var upgradeClient = &http.Client{Timeout: time.Minute}

// call asks a random gateway, and others while it is refused or draining, or the outcome is
// unknown. at is when the last try began.
func (u *upgrade) call(r *rand.Rand, method, path, session, body string, wait time.Duration) (got upgradeAnswer) {
	for {
		u.mu.Lock()
		g := u.gateways[r.IntN(len(u.gateways))]
		u.mu.Unlock()
		if g == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		unknown := got.unknown
		got = u.ask(g, method, path, session, body)
		got.unknown = got.unknown || unknown
		u.mu.Lock()
		key := g.name[:1] + " " + strconv.Itoa(got.code)
		u.met[key]++
		u.slowest = max(u.slowest, time.Since(got.at)-wait)
		u.mu.Unlock()
		switch got.code {
		case 0, 502, 503:
			time.Sleep(retryPace)
		default:
			return got
		}
	}
}

// ask asks one gateway once.
func (u *upgrade) ask(g *upgraded, method, path, session, body string) upgradeAnswer {
	got := upgradeAnswer{by: g.name, at: time.Now()}
	request, err := http.NewRequestWithContext(context.Background(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if session != "" {
		request.Header.Set("X-Dflockd-Session", session)
	}
	resp, err := upgradeClient.Do(request)
	if err != nil {
		got.unknown = outcome(answer{}, err) == metLost
		return got
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		got.unknown = true
		return got
	}
	got.code, got.body, got.unknown = resp.StatusCode, string(text), resp.StatusCode == http.StatusBadGateway
	_ = json.Unmarshal(text, &got)
	return got
}

// grantTold records a lease that lasts for at least ttl seconds from the call.
func (u *upgrade) grantTold(slot string, got upgradeAnswer, fence uint64, ttl int) *kvslotstest.Told {
	now := time.Now()
	lease := &kvslotstest.Told{Fence: fence, Granted: now, Ends: got.at.Add(time.Duration(ttl) * time.Second), By: got.by}
	u.ledger.Grant(slot, lease)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.last.IsZero() {
		u.longest = max(u.longest, now.Sub(u.last))
	}
	u.last = now
	u.granted++
	return lease
}

func (u *upgrade) borrow(r *rand.Rand, pool string, ttl, wait int) (got upgradeAnswer, lease *kvslotstest.Told) {
	got = u.call(r, "POST", "/l/"+pool+"/borrow", "", fmt.Sprintf(`{"ttl":%d,"wait":%d}`, ttl, wait), time.Duration(wait)*time.Second)
	switch got.code {
	case 200:
		lease = u.grantTold(fmt.Sprint(pool, got.Position), got, got.Fence, ttl)
	case 409:
	default:
		u.ledger.Fail("borrow of %s: %d %s", got.by, got.code, got.body)
	}
	return got, lease
}

func (u *upgrade) renew(r *rand.Rand, pool, id string, lease *kvslotstest.Told, ttl int) {
	got := u.call(r, "POST", "/l/"+pool+"/renew", "", fmt.Sprintf(`{"lease":"%s","ttl":%d}`, id, ttl), 0)
	switch {
	case got.code == 200 && got.Fence == lease.Fence:
		u.ledger.Renewed(lease, got.at.Add(time.Duration(ttl)*time.Second))
	case got.code == 200 || time.Now().Before(lease.Ends):
		u.ledger.Fail("renewal of %s by %s: %d %s", lease, got.by, got.code, got.body)
	}
}

func (u *upgrade) giveBack(r *rand.Rand, pool, id string, lease *kvslotstest.Told) {
	ends := u.ledger.GiveBack(lease)
	got := u.call(r, "POST", "/l/"+pool+"/return", "", fmt.Sprintf(`{"lease":"%s"}`, id), 0)
	if got.code != 200 || !got.Returned && !got.unknown && time.Now().Before(ends) {
		u.ledger.Fail("return of %s by %s: %d %s", lease, got.by, got.code, got.body)
	}
}

// holder keeps a lease and renews it at any gateway.
func (u *upgrade) holder(r *rand.Rand) {
	got, lease := u.borrow(r, upgradeLong, 600, 0)
	if lease == nil {
		u.ledger.Fail("no long lease: %d %s", got.code, got.body)
		return
	}
	for u.pause(300 * time.Millisecond) {
		u.renew(r, upgradeLong, got.Lease, lease, 600)
	}
	u.giveBack(r, upgradeLong, got.Lease, lease)
}

// borrower borrows from the contended pools, and renews and returns at any gateway.
func (u *upgrade) borrower(r *rand.Rand) {
	for u.pause(time.Duration(r.IntN(20)) * time.Millisecond) {
		pool, ttl := upgradePools+strconv.Itoa(r.IntN(len(upgradeCounts))), 2+r.IntN(4)
		got, lease := u.borrow(r, pool, ttl, r.IntN(3))
		if lease == nil {
			continue
		}
		u.pause(time.Duration(r.IntN(20)) * time.Millisecond)
		if r.IntN(3) == 0 {
			u.renew(r, pool, got.Lease, lease, ttl)
		}
		if r.IntN(30) > 0 { // otherwise its time ends it
			u.giveBack(r, pool, got.Lease, lease)
		}
	}
}

// locker takes locks by sessions at any gateway.
func (u *upgrade) locker(r *rand.Rand) {
	for u.pause(time.Duration(r.IntN(20)) * time.Millisecond) {
		session := u.call(r, "POST", "/v1/sessions", "", "", 0).Session
		if session == "" {
			u.ledger.Fail("no session")
			continue
		}
		for n := r.IntN(100); n > 0 && u.pause(time.Duration(r.IntN(20))*time.Millisecond); n-- {
			u.lock(r, session)
		}
		if got := u.call(r, "DELETE", "/v1/sessions/"+session, "", "", 0); got.code != 204 && !(got.code == 410 && got.unknown) {
			u.ledger.Fail("end of a session by %s: %d %s", got.by, got.code, got.body)
		}
	}
}

func (u *upgrade) lock(r *rand.Rand, session string) {
	const ttl = 15
	path := "/v1/locks/upgrade-" + strconv.Itoa(r.IntN(3))
	var got upgradeAnswer
	if r.IntN(2) == 0 {
		got = u.call(r, "POST", path, session, fmt.Sprintf(`{"acquire_timeout_s":2,"lease_ttl_s":%d}`, ttl), 2*time.Second)
	} else {
		got = u.call(r, "POST", path+"/enqueue", session, fmt.Sprintf(`{"lease_ttl_s":%d}`, ttl), 0)
		if got.Status == "queued" || got.code == 409 && got.unknown {
			unknown := got.unknown
			got = u.call(r, "POST", path+"/wait", session, `{"timeout_s":2}`, 2*time.Second)
			got.unknown = got.unknown || unknown
		}
	}
	switch {
	case got.code == 200 && got.Token != "":
	case got.code == 200 && got.Status == "timeout", got.code == 409 && got.unknown:
		return
	default:
		u.ledger.Fail("lock by %s: %d %s %+v", got.by, got.code, got.body, got)
		return
	}
	fence, _ := strconv.ParseUint(got.Token[:16], 16, 64)
	lease := u.grantTold(path, got, fence, ttl)
	u.pause(time.Duration(r.IntN(10)) * time.Millisecond)
	ends := u.ledger.GiveBack(lease)
	token := fmt.Sprintf(`{"token":%q}`, got.Token)
	if done := u.call(r, "POST", path+"/release", session, token, 0); done.code != 204 && !(done.code == 404 && done.unknown) && time.Now().Before(ends) {
		u.ledger.Fail("release of %s by %s: %d %s", lease, done.by, done.code, done.body)
	}
}

// nothingLeft waits until every lease has ended, by the word of each gateway.
func (u *upgrade) nothingLeft() {
	for _, g := range u.gateways {
		for i := range upgradeCounts {
			g.eventually(u.t, "/l/"+upgradePools+strconv.Itoa(i), `"in_use":0`)
			g.eventually(u.t, "/l/"+upgradePools+strconv.Itoa(i), `"waiting":0`)
		}
		g.eventually(u.t, "/l/"+upgradeLong, `"in_use":0`)
		g.eventually(u.t, "/v1/stats", `"locks":[]`)
	}
}
