package forrst_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// asService is the environment variable with which the test binary serves functions at
// a URL.
const asService = "KVSLOTS_TEST_AS_FUNCTIONS"

// serveFunctions serves work.count, which reports when two calls overlap, and
// work.hang, which never answers, until standard input ends.
func serveFunctions(url string) {
	nc, err := nats.Connect(url)
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	inside, most, served := 0, 0, 0
	_, err = nc.Subscribe("forrst.fn.work.count", func(m *nats.Msg) {
		go func() { // messages of a subscription are delivered one by one
			mu.Lock()
			inside++
			served++
			most = max(most, inside)
			number := served
			mu.Unlock()
			time.Sleep(5 * time.Millisecond) // time for other calls to overlap
			mu.Lock()
			inside--
			answer := fmt.Sprintf(`{"most":%d,"number":%d,"fence":%s,"ends_in":%s}`,
				most, number, m.Header.Get(wire.FenceHeader), m.Header.Get(wire.LockEndsInHeader))
			mu.Unlock()
			_ = m.Respond([]byte(answer))
		}()
	})
	if err != nil {
		panic(err)
	}
	if _, err = nc.Subscribe("forrst.fn.work.hang", func(*nats.Msg) { fmt.Println("called") }); err != nil {
		panic(err)
	}
	if err := nc.Flush(); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	nc.Close()
}

// service is a process that serves functions.
type service struct {
	*exec.Cmd
	out io.Reader
}

func startService(t *testing.T, s *site) *service {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), asService+"="+s.server.ClientURL())
	in, err := process.StdinPipe()
	kvslotstest.Must(t, err)
	out, err := process.StdoutPipe()
	kvslotstest.Must(t, err)
	process.Stderr = os.Stderr
	kvslotstest.Must(t, process.Start())
	t.Cleanup(func() {
		in.Close()
		_ = process.Wait()
	})
	p := &service{Cmd: process, out: out}
	p.waitFor(t, "ready\n")
	return p
}

// waitFor waits until the process prints a line.
func (p *service) waitFor(t *testing.T, line string) {
	t.Helper()
	got := make([]byte, len(line))
	if _, err := io.ReadFull(p.out, got); err != nil || string(got) != line {
		t.Fatalf("the process printed %q, %v", got, err)
	}
}

// Twenty callers of a function in another process, at two gateways, never overlap, and
// are served in the order of their calls.
func TestCallersExcludeEachOther(t *testing.T) {
	s := newSite(t)
	gateways := []*testGateway{s.startGateway(t, forrst.Config{}), s.startGateway(t, forrst.Config{})}
	startService(t, s)
	held, err := gateways[0].store.LockOwned(t.Context(), "lock:work.count:k", "test", kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	const callers = 20
	var wg sync.WaitGroup
	results := make([]struct {
		Most, Number int
		Fence        uint64
		EndsIn       int `json:"ends_in"`
	}, callers)
	for i := range callers {
		wg.Go(func() {
			a := gateways[i%2].call(t, "work.count", `{}`, `{"key":"k","ttl":{"value":10,"unit":"second"},"block":{"value":1,"unit":"minute"}}`, 200, `"acquired":true`)
			var e struct{ Result any }
			e.Result = &results[i]
			if err := json.Unmarshal(a.body, &e); err != nil {
				t.Error(err)
			}
			if told := a.lock(t).Fence; told != results[i].Fence {
				t.Errorf("fence %d, but the function received %d", told, results[i].Fence)
			}
		})
		gatewaytest.Eventually(t, "caller "+strconv.Itoa(i)+" waits", func() bool {
			stats, err := gateways[1].store.Stats(t.Context())
			return err == nil && len(stats.Names) == 1 && len(stats.Names[0].Waiters) == i+1
		})
	}
	kvslotstest.Must(t, kvslotstest.Err(gateways[0].store.UnlockOwned(t.Context(), held)))
	wg.Wait()
	for i, r := range results {
		switch {
		case r.Most != 1:
			t.Errorf("caller %d: %d were in the function at once", i, r.Most)
		case r.Number != i+1:
			t.Errorf("caller %d was served as number %d", i, r.Number)
		case r.EndsIn <= 0 || r.EndsIn > 10_000:
			t.Errorf("caller %d: the lock ends in %d ms", i, r.EndsIn)
		case i > 0 && r.Fence <= results[i-1].Fence:
			t.Errorf("caller %d: fence %d after %d", i, r.Fence, results[i-1].Fence)
		}
	}
	gateways[0].wantFree(t, "lock:work.count:k")
}

// When the process of a running function is killed, the lock is free as soon as the
// call fails, not only after the ttl.
func TestKilledFunction(t *testing.T) {
	s := newSite(t)
	d := s.startGateway(t, forrst.Config{Timeout: time.Second})
	p := startService(t, s)
	done := make(chan answer)
	go func() {
		done <- d.call(t, "work.hang", "", `{"key":"k","ttl":{"value":1,"unit":"hour"}}`, 504, `"code":"DEADLINE_EXCEEDED"`)
	}()
	p.waitFor(t, "called\n")
	kvslotstest.Must(t, p.Process.Kill())
	if a := <-done; a.lock(t).Expired || a.lock(t).Owner == "" { // an owner: it was locked
		t.Errorf("%s", a.body)
	}
	d.wantFree(t, "lock:work.hang:k")
	gatewaytest.Eventually(t, "the server notices the death", func() bool {
		a := d.post(t, envelope("work.hang", "", ""))
		return a.code == 404 && strings.Contains(string(a.body), `"code":"FUNCTION_NOT_FOUND"`)
	})
}
