//go:build unix

package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

const soakPool = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// openSoak serves pools with limits, for the long tests.
func openSoak(t *testing.T, change func(cfg *gateway.Config)) *gatewaytest.Gateway {
	t.Helper()
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{MaxWait: 10 * time.Minute})
	return gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{library.New(store, cfg.Lending, cfg.Logger)}
		change(cfg)
	})
}

// Each of 1,000 clients that send a header byte by byte is cut off in time, and a request
// with a long wait beside them is not.
func TestSlowHeadersSoak(t *testing.T) {
	const slow = 1000
	d := openSoak(t, func(cfg *gateway.Config) { cfg.MaxConnections = slow + 50 })
	d.Do(t, "PUT", soakPool, `{"count":1}`)
	d.Do(t, "POST", soakPool+"/borrow", `{"ttl":120}`)
	waited := make(chan string, 1)
	go func() {
		code, body, _ := d.Do(t, "POST", soakPool+"/borrow", `{"ttl":60,"wait":30}`)
		waited <- fmt.Sprint(code, body)
	}()
	began := time.Now()
	var all sync.WaitGroup
	var cut, longest atomic.Int64
	for range slow {
		conn := d.Dial(t)
		all.Go(func() {
			go func() {
				beat := time.NewTicker(500 * time.Millisecond)
				defer beat.Stop()
				for i := 0; ; i++ { // ends when the connection is closed
					if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "[i%2:i%2+1]); err != nil {
						return
					}
					<-beat.C
				}
			}()
			opened := time.Now()
			_ = conn.SetReadDeadline(opened.Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); err == nil || !strings.Contains(err.Error(), "timeout") {
				cut.Add(1)
			}
			if took := int64(time.Since(opened)); took > longest.Load() {
				longest.Store(took)
			}
		})
	}
	opened := time.Since(began)
	var quick []time.Duration
	for range 200 {
		asked := time.Now()
		if code, body, _ := d.Do(t, "GET", soakPool, ""); code != 200 {
			t.Errorf("beside the slow ones: %d %s", code, body)
		}
		quick = append(quick, time.Since(asked))
	}
	all.Wait()
	t.Logf("%d connections opened in %s; cut off: %d, the last one after %s; an inspection beside them: p99 %s",
		slow, opened, cut.Load(), time.Duration(longest.Load()), percentile(quick, 99))
	if cut.Load() != slow {
		t.Errorf("%d of %d were cut off", cut.Load(), slow)
	}
	if got := <-waited; !strings.HasPrefix(got, "409") {
		t.Errorf("the request that waited is answered %s", got)
	}
}

// 10,000 requests wait, the next one is refused, and each of them is served.
func TestManyWaitersSoak(t *testing.T) {
	waiters := min(10_000, (openFiles(t)-1000)/2) // both ends of each connection are here
	d := openSoak(t, func(cfg *gateway.Config) { cfg.Lending.Waits.Limit(gateway.WaitLimits{Total: waiters, PerIP: waiters}) })
	d.Do(t, "PUT", soakPool, `{"count":1}`)
	_, held, _ := d.Do(t, "POST", soakPool+"/borrow", `{"ttl":3600}`)
	before := memory()
	began := time.Now()
	conns := make([]net.Conn, waiters)
	const borrow = `{"ttl":3600,"wait":600}`
	for i := range conns {
		conns[i] = d.Dial(t)
		fmt.Fprintf(conns[i], "POST %s/borrow HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", soakPool, len(borrow), borrow)
	}
	patiently(t, "all wait", func() bool {
		_, state, _ := d.Do(t, "GET", soakPool, "")
		return strings.Contains(state, fmt.Sprintf(`"waiting":%d`, waiters))
	})
	t.Logf("%d wait after %s, with %.1f kB of memory each, both ends of the connections included", waiters, time.Since(began), float64(memory()-before)/float64(waiters)/1000)
	if code, body, header := d.Do(t, "POST", soakPool+"/borrow", borrow); code != 503 || header.Get("Kvslots-Error") != "max_waiters_total" {
		t.Errorf("one more: %d %s", code, body)
	}
	began = time.Now()
	lease := held[strings.Index(held, `:"`)+2:][:36]
	d.Do(t, "POST", soakPool+"/return", `{"lease":"`+lease+`"}`)
	var served atomic.Int64
	var all sync.WaitGroup
	for _, conn := range conns { // the line has another order than the connections
		all.Go(func() {
			answers := bufio.NewReader(conn)
			lease, err := leaseOf(answers)
			if err != nil {
				t.Error(err)
				return
			}
			served.Add(1)
			body := `{"lease":"` + lease + `"}`
			fmt.Fprintf(conn, "POST %s/return HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", soakPool, len(body), body)
			_, _ = http.ReadResponse(answers, nil)
		})
	}
	all.Wait()
	t.Logf("%d served, one after the other, in %s", served.Load(), time.Since(began))
}

// leaseOf reads the answer to a borrow.
func leaseOf(from *bufio.Reader) (string, error) {
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		return "", fmt.Errorf("%d %s, %w", answer.StatusCode, body, err)
	}
	return string(body)[len(`{"lease":"`):][:36], nil
}

// openFiles returns how many files the process may open.
func openFiles(t *testing.T) int {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}

func percentile(of []time.Duration, p int) time.Duration {
	slices.Sort(of)
	return of[(len(of)-1)*p/100]
}

// memory returns the bytes of heap and stacks in use.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// patiently waits for a condition for minutes.
func patiently(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
