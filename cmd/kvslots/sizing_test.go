package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// idleWindow is how long the CPU time of an idle gateway is measured.
const idleWindow = time.Minute

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

// logIdle logs the processor time and memory of the gateway while it gets no requests.
func (p *program) logIdle(t *testing.T, with string) {
	t.Helper()
	time.Sleep(10 * time.Second) // until what the load has left is written and collected
	before := p.metric(t, "process_cpu_seconds_total")
	time.Sleep(idleWindow)
	used := p.metric(t, "process_cpu_seconds_total") - before
	t.Logf("idle with %s: %.2f %% of one core, %.0f MB resident, %.0f MB of heap in use, %.0f goroutines",
		with, 100*used/idleWindow.Seconds(), p.metric(t, "process_resident_memory_bytes")/1e6,
		p.metric(t, "go_memstats_heap_inuse_bytes")/1e6, p.metric(t, "go_goroutines"))
}

// --max-pools=100000 allows 100,000 pools and not one more, and with them everything
// still works.
func TestManyPoolsSoak(t *testing.T) {
	const pools = 100_000
	soak(t)
	binary, dir := buildBinary(t), t.TempDir()
	args := []string{"--data-dir", dir, "--max-pools", strconv.Itoa(pools)}
	p := startBinary(t, binary, args...)
	p.logIdle(t, "nothing")
	began := time.Now()
	ids := p.registerMany(t, pools)
	t.Logf("%d pools registered in %s", pools, time.Since(began))
	p.wantFull(t, ids)
	p.logIdle(t, fmt.Sprint(pools, " pools"))

	p.drain(t)
	began = time.Now()
	p = startBinary(t, binary, args...)
	t.Logf("listens again %s after its start", time.Since(began))
	p.wantFull(t, ids)
	p.logIdle(t, fmt.Sprint(pools, " pools after a restart"))
	p.drain(t)
}

// registerMany registers pools, and returns their ids.
func (p *program) registerMany(t *testing.T, n int) []string {
	t.Helper()
	const clients = 64
	ids := make([]string, n)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				ids[i] = uuid.NewString()
				r, err := http.NewRequestWithContext(t.Context(), "PUT", p.url+"/l/"+ids[i], strings.NewReader(`{"count":1}`))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("pool %d: %d", i, resp.StatusCode)
					return
				}
			}
		})
	}
	all.Wait()
	return ids
}

// wantFull checks that no further pool is registered, and that the others work.
func (p *program) wantFull(t *testing.T, ids []string) {
	t.Helper()
	p.want(t, "PUT", "/l/"+uuid.NewString(), `{"count":1}`, 503, "")
	var borrows []time.Duration
	for i := 0; i < len(ids); i += len(ids) / 200 {
		asked := time.Now()
		code, body := p.ask(t, "POST", "/l/"+ids[i]+"/borrow", `{"ttl":60}`)
		borrows = append(borrows, time.Since(asked))
		var lease struct{ Lease string }
		if err := json.Unmarshal([]byte(body), &lease); code != 200 || err != nil {
			t.Fatalf("%d %s", code, body)
		}
		p.want(t, "PUT", "/l/"+ids[i], `{"count":2}`, 200, `"in_use":1`)
		p.want(t, "POST", "/l/"+ids[i]+"/return", `{"lease":"`+lease.Lease+`"}`, 200, `{"returned":true}`)
	}
	slices.Sort(borrows)
	t.Logf("a borrow on a connection of its own: median %s, p99 %s", borrows[len(borrows)/2], borrows[len(borrows)*99/100])
	for _, path := range []string{"/ready", "/metrics", "/v1/stats"} {
		var took []time.Duration
		size := 0
		for range 21 {
			asked := time.Now()
			code, body := p.ask(t, "GET", path, "")
			took = append(took, time.Since(asked))
			if size = len(body); code != 200 {
				t.Errorf("%s: %d", path, code)
			}
		}
		slices.Sort(took)
		t.Logf("%s: %d bytes, median %s, longest %s", path, size, took[len(took)/2], took[len(took)-1])
	}
}

// 10,000 requests over HTTP wait at an idle gateway, the next one is refused, and each of
// them is served. The clients are in this process, with a limit of open files of its own.
func TestIdleWaitersSoak(t *testing.T) {
	const waiters, borrow = 10_000, `{"ttl":60,"wait":1800}`
	soak(t)
	p := startBinary(t, buildBinary(t), "--data-dir", t.TempDir(), "--max-wait", "1h",
		"--max-connections", strconv.Itoa(waiters+100), "--max-waiters-total", strconv.Itoa(waiters))
	p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
	conns := make([]net.Conn, waiters)
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(i, err)
		}
		defer conn.Close()
		conns[i] = conn
		postTo(conn, "borrow", borrow)
	}
	p.eventually(t, "/l/"+pool, fmt.Sprintf(`"waiting":%d`, waiters))
	p.logIdle(t, fmt.Sprint(waiters, " waiters"))
	p.want(t, "POST", "/l/"+pool+"/borrow", borrow, 503, "")
	began := time.Now()
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	var all sync.WaitGroup
	for _, conn := range conns { // the line has another order than the connections
		all.Go(func() {
			if err := lentAndReturned(conn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Logf("%d served, one after the other, in %s", waiters, time.Since(began))
	p.drain(t)
}

// postTo sends a request for the pool.
func postTo(conn net.Conn, operation, body string) {
	fmt.Fprintf(conn, "POST /l/%s/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", pool, operation, len(body), body)
}

// lentAndReturned reads the answer to a borrow, and returns the lease.
func lentAndReturned(conn net.Conn) error {
	answers := bufio.NewReader(conn)
	var lease struct{ Lease string }
	if err := readAnswer(answers, &lease); err != nil {
		return err
	}
	postTo(conn, "return", `{"lease":"`+lease.Lease+`"}`)
	var ended struct{ Returned bool }
	if err := readAnswer(answers, &ended); err != nil {
		return err
	}
	if !ended.Returned {
		return errors.New("the lease has ended before its return")
	}
	return nil
}

func readAnswer(from *bufio.Reader, into any) error {
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
