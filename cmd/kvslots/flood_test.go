package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

// A client is served beside a flood from another address. Server, client and flood are
// processes of their own. A flood takes processor time from all of them, also if it does
// not reach the server, so the client is measured beside the same flood of another server,
// too. The three measurements are taken in turn.
func TestFloodFromOneAddressSoak(t *testing.T) {
	soak(t)
	p := startBinary(t, buildBinary(t), "--data-dir", t.TempDir(),
		"--http-rate-limit", "200", "--http-rate-burst", "200", "--max-connections-per-ip", "32")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer elsewhere.Close()
	own, other := strings.TrimPrefix(p.url, "http://"), strings.TrimPrefix(elsewhere.URL, "http://")
	for _, flood := range []string{"requests", "connections"} {
		t.Run(flood, func(t *testing.T) {
			const rounds = 3
			var quiet, beside, flooded []time.Duration
			var sent floodCounts
			for range rounds {
				quiet = append(quiet, measured(t, own)...)
				stop := startFlood(t, flood, other)
				beside = append(beside, measured(t, own)...)
				stop()
				stop = startFlood(t, flood, own)
				flooded = append(flooded, measured(t, own)...)
				sent.add(stop())
			}
			base, same, got := p99(quiet), p99(beside), p99(flooded)
			t.Logf("p99 of an inspection: quiet %s, beside a flood of another server %s (%.1f times), beside the flood %s (%.1f times); the flood: %+v",
				base, same, ratio(same, base), got, ratio(got, base), sent)
			if sent.Refused+sent.Failed == 0 {
				t.Error("nothing of the flood was refused")
			}
		})
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func p99(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)*99/100].Round(time.Microsecond)
}

// asLoad makes the test program put a load on a server, by its name in loads.
const asLoad = "KVSLOTS_TEST_AS_LOAD"

var loads = map[string]func(kind, addr string){"measure": measure, "flood": flood, "natsmeasure": natsMeasure, "natsflood": natsFlood}

func newLoad(t *testing.T, load, kind, addr string) *exec.Cmd {
	t.Helper()
	process := newProcess(t, kind, addr)
	process.Env = append(os.Environ(), asLoad+"="+load)
	process.Stderr = os.Stderr
	return process
}

// measured returns the latencies of a client's requests.
func measured(t *testing.T, addr string) (took []time.Duration) {
	t.Helper()
	out, err := newLoad(t, "measure", "inspections", addr).Output()
	if err == nil {
		err = json.Unmarshal(out, &took)
	}
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// measure inspects a pool 500 times in 5 s, over one connection.
func measure(_, addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	answers, pace := bufio.NewReader(conn), time.NewTicker(10*time.Millisecond)
	var took []time.Duration
	for range 500 {
		<-pace.C
		began := time.Now()
		if code := inspect(conn, answers); code != http.StatusOK {
			panic(fmt.Sprint("answered ", code))
		}
		took = append(took, time.Since(began))
	}
	_ = json.NewEncoder(os.Stdout).Encode(took)
}

// inspect returns the status of an answer, or 0 without one.
func inspect(conn net.Conn, answers *bufio.Reader) int {
	return exchange(conn, answers, "GET /l/"+pool+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

// cycle registers a pool and deletes it. It returns the status of the registration.
func cycle(conn net.Conn, answers *bufio.Reader) int {
	path := "/l/" + uuid.NewString()
	code := exchange(conn, answers, "PUT "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"count\":1}")
	if code == http.StatusOK {
		exchange(conn, answers, "DELETE "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	return code
}

// exchange sends a request and returns the status of its answer, or 0 without one.
func exchange(conn net.Conn, answers *bufio.Reader, request string) int {
	if _, err := io.WriteString(conn, request); err != nil {
		return 0
	}
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

type floodCounts struct{ Served, Refused, Failed int64 }

func (c *floodCounts) add(more floodCounts) {
	c.Served += more.Served
	c.Refused += more.Refused
	c.Failed += more.Failed
}

// startFlood floods a server until stop is called.
func startFlood(t *testing.T, kind, addr string) (stop func() floodCounts) {
	t.Helper()
	process := newLoad(t, "flood", kind, addr)
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	process.Stdout = &out
	startProcess(t, process)
	return func() (sent floodCounts) {
		stdin.Close()
		err := process.Wait()
		if err == nil {
			err = json.Unmarshal([]byte(out.String()), &sent)
		}
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
}

// flood sends requests from an address of its own until standard input ends: 5,000 a second
// over 32 connections, or 2,000 a second over a connection each. The floods "pools" and "pools
// over NATS" register pools and delete them.
func flood(kind, addr string) {
	workers, perSecond, keep := 32, 5000, true
	if kind == "connections" {
		workers, perSecond, keep = 64, 2000, false
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	send := inspect
	if kind == "pools" {
		send = cycle
	}
	f := &flooder{ctx: ctx, addr: addr, send: send, keep: keep, pace: rate.NewLimiter(rate.Limit(perSecond), 100)}
	work := f.work
	if kind == "pools over NATS" {
		work = f.workOverNATS
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(work)
	}
	all.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(floodCounts{f.served.Load(), f.refused.Load(), f.failed.Load()})
}

// floodFrom is the address from which floods come.
var floodFrom = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

type flooder struct {
	ctx                     context.Context
	addr                    string
	send                    func(net.Conn, *bufio.Reader) (code int)
	keep                    bool // a connection for many requests
	pace                    *rate.Limiter
	served, refused, failed atomic.Int64
}

func (f *flooder) work() {
	for f.pace.Wait(f.ctx) == nil {
		conn, err := floodFrom.DialContext(f.ctx, "tcp", f.addr)
		if err != nil {
			f.count(0)
			continue
		}
		end := context.AfterFunc(f.ctx, func() { conn.Close() })
		answers := bufio.NewReader(conn)
		for f.count(f.send(conn, answers)) && f.keep && f.pace.Wait(f.ctx) == nil {
		}
		if end() {
			_ = conn.(*net.TCPConn).SetLinger(0) // else the kernel would keep its port for a minute
			conn.Close()
		}
	}
}

// workOverNATS registers pools and deletes them.
func (f *flooder) workOverNATS() {
	nc, err := nats.Connect(f.addr, nats.SetCustomDialer(floodFrom), nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	gateways := client.New(nc)
	for f.pace.Wait(f.ctx) == nil {
		id := uuid.New()
		_, err := gateways.Register(f.ctx, id, 1)
		switch {
		case err == nil:
			f.count(http.StatusOK)
			_ = gateways.Delete(f.ctx, id)
		case errors.Is(err, kvslots.ErrMaxTombstones):
			f.count(http.StatusTooManyRequests)
		default:
			f.count(0)
		}
	}
}

// count counts an answer, and reports whether there was one.
func (f *flooder) count(code int) bool {
	switch {
	case code == 0 && f.ctx.Err() != nil: // the flood ends
	case code == 0:
		f.failed.Add(1)
	case code == http.StatusOK:
		f.served.Add(1)
	default:
		f.refused.Add(1)
	}
	return code != 0
}
