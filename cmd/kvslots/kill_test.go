package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// After kill -9 while a hundred clients borrow, no acknowledged lease is missing, no
// slot is lent twice, and tickets of killed requests do not block the line.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, slots, acknowledged = 100, 20, 300
	dir := t.TempDir()
	process, p := serveProcess(t, "--data-dir", dir)
	p.want(t, "PUT", "/l/"+pool, fmt.Sprintf(`{"count":%d}`, slots), 200, "")

	crowd := newCrowd(p.url + "/l/" + pool)
	var running sync.WaitGroup
	for range clients {
		running.Go(crowd.client)
	}
	crowd.waitFor(t, acknowledged)
	kvslotstest.Must(t, process.Process.Kill())
	process.Wait()
	running.Wait()

	again := startServe(t, noEnv, "--data-dir", dir)
	positions := map[int]bool{}
	for id, position := range crowd.held {
		if positions[position] {
			t.Errorf("position %d was lent twice", position)
		}
		positions[position] = true
		again.wantServed(t, "/l/"+pool+"/renew", `{"lease":"`+id+`","ttl":600}`)
		again.wantServed(t, "/l/"+pool+"/return", `{"lease":"`+id+`"}`)
	}
	if len(crowd.held) < acknowledged/kept {
		t.Fatalf("only %d slots were held; the test shows nothing", len(crowd.held))
	}
	again.wantServed(t, "/l/"+pool+"/borrow", `{"ttl":30,"wait":30}`) // killed requests would wait for longer
}

// wantServed repeats a request while the answer is 502, as it may be on a very busy machine,
// and wants it to be 200.
func (p *program) wantServed(t *testing.T, path, body string) {
	t.Helper()
	code, answer := p.ask(t, "POST", path, body)
	for code == 502 {
		code, answer = p.ask(t, "POST", path, body)
	}
	if code != 200 {
		t.Errorf("%s %s: %d %s", path, body, code, answer)
	}
}

// crowd is a set of clients and the leases that they know.
type crowd struct {
	url  string
	http *http.Client

	mu           sync.Mutex
	acknowledged int
	held         map[string]int // position by lease, without leases that are being returned
}

func newCrowd(url string) *crowd {
	return &crowd{
		url:  url,
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		held: map[string]int{},
	}
}

// kept is how many leases are granted for each one that its client keeps.
const kept = 50

// client borrows, and returns most leases, until the server is gone.
func (c *crowd) client() {
	for {
		var lease struct {
			Lease    string `json:"lease"`
			Position int    `json:"position"`
		}
		code, body, err := c.post("/borrow", `{"ttl":600,"wait":60}`)
		if err != nil {
			return
		}
		if code != 200 || json.Unmarshal(body, &lease) != nil {
			continue
		}
		if n := c.grant(lease.Lease, lease.Position); n%kept > 0 {
			c.drop(lease.Lease)
			if _, _, err := c.post("/return", `{"lease":"`+lease.Lease+`"}`); err != nil {
				return
			}
		}
	}
}

func (c *crowd) post(path, body string) (int, []byte, error) {
	resp, err := c.http.Post(c.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// grant records a lease, and returns how many were granted so far.
func (c *crowd) grant(lease string, position int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acknowledged++
	c.held[lease] = position
	return c.acknowledged
}

// drop forgets a lease. It is called before the return, whose outcome may stay unknown.
func (c *crowd) drop(lease string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, lease)
}

// waitFor waits for n acknowledged leases.
func (c *crowd) waitFor(t *testing.T, n int) {
	t.Helper()
	waitFor(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.acknowledged >= n
	})
}
