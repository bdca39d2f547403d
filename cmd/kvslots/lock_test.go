//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// underName returns the arguments of "kvslots lock" or "kvslots sem" for a shell script.
func underName(transport []string, script string, args ...string) []string {
	return append(append(args, transport...), "--", "/bin/sh", "-c", script)
}

func TestLockCommand(t *testing.T) {
	overTransports(t, func(t *testing.T, _ *program, transport []string) {
		lock := func(script string, args ...string) []string {
			return underName(transport, script, append([]string{"lock", "nightly"}, args...)...)
		}
		t.Setenv("KVSLOTS_AUTH_TOKEN", "hunter2")
		wantCall(t, 0, "[0-9]{16}\n", "", lock(`echo $KVSLOTS_FENCE$KVSLOTS_AUTH_TOKEN$KVSLOTS_LEASE`)...)
		wantCall(t, 7, "", "oops\n", lock(`echo oops >&2; exit 7`)...)
		wantCall(t, 3, "shell\n", "", append([]string{"lock", "nightly", "-c", "echo shell; exit 3"}, transport...)...)
		wantCall(t, 0, "[0-9]{16},[0-9]{16}\n", "", lock(`echo $KVSLOTS_FENCES`, "--also", "daily")...)
	})
}

// A lock that is taken is reported as flock(1) does.
func TestLockCommandConflict(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		end := t.TempDir()
		holder := func(args ...string) (release func()) {
			out, code := start(t, underName(transport, `echo held; while [ -e `+end+` ]; do sleep 0.02; done`, args...)...)
			waitFor(t, func() bool { return strings.Contains(out.String(), "held") })
			return func() {
				if got := <-code; got != 0 {
					t.Errorf("exit code %d:\n%s", got, out)
				}
			}
		}
		releaseLock, releaseSem := holder("lock", "nightly"), holder("sem", "jobs", "--limit", "1")
		for _, what := range [][]string{{"lock", "nightly"}, {"sem", "jobs", "--limit", "1"}} {
			taken := func(flags ...string) []string {
				return underName(transport, `echo ran`, append(append([]string{}, what...), flags...)...)
			}
			wantCall(t, 75, "", "kvslots: "+what[1]+": taken by .+@.+:[0-9]+ sh, for [0-9]+s; place 1 in the line\n", taken("-n")...)
			wantCall(t, 75, "", "kvslots: "+what[1]+": taken by .+; place 1 in the line\n", taken("-w", "1")...)
			wantCall(t, 75, "", "", taken("-n", "-q")...)
			wantCall(t, 9, "", "", taken("-n", "-q", "-E", "9")...)
		}
		for _, wait := range []string{"0", "1m"} {
			wantCall(t, 65, "", "kvslots: jobs: the key is in use with limit 1: taken by .+@.+:[0-9]+ sh, for [0-9]+s; \"kvslots resize\" changes the limit\n",
				underName(transport, `echo ran`, "sem", "jobs", "--limit", "2", "-w", wait)...)
		}
		wantCall(t, 65, "", "kvslots: nightly: the key is in use as a lock: taken by .+\n", underName(transport, `echo ran`, "sem", "nightly", "--limit", "2", "-n")...)
		waiter, code := start(t, underName(transport, `echo ran`, "lock", "nightly")...)
		kvslotstest.Must(t, syscall.Rmdir(end))
		releaseLock()
		releaseSem()
		if got := <-code; got != 0 || waiter.String() != "ran\n" {
			t.Errorf("the waiter ended with %d:\n%s", got, waiter)
		}
	})
}

// Two gateways hand a lock from one command to the next. The log has the time between them.
func TestLockCommandHandsOver(t *testing.T) {
	t.Parallel()
	const handovers = 20
	_, nats := runNATS(t, jetStreamOptions(t))
	gateways := []*program{startServe(t, noEnv, "--nats-url", nats), startServe(t, noEnv, "--nats-url", nats)}
	for name, transport := range map[string]func(p *program) []string{
		"http": func(p *program) []string { return []string{"--server", p.url} },
		"nats": func(*program) []string { return []string{"--nats-url", nats} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lock := func(i int) (out *logtest.Output, code chan int, end string) {
				end = filepath.Join(dir, strconv.Itoa(i))
				script := `date +alive%s%N; while ! [ -e ` + end + ` ]; do sleep 0.01; done; date +alive%s%N`
				out, code = start(t, underName(transport(gateways[i%len(gateways)]), script, "lock", "nightly")...)
				return out, code, end
			}
			var took []time.Duration
			holder, code, end := lock(0)
			waitFor(t, func() bool { return !lastSign(holder.String()).IsZero() })
			for i := range handovers {
				waiter, next, nextEnd := lock(i + 1)
				gateways[0].eventually(t, "/v1/stats", `"waiters":1`)
				kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
				if got := <-code; got != 0 {
					t.Fatalf("exit code %d:\n%s", got, holder)
				}
				waitFor(t, func() bool { return !lastSign(waiter.String()).IsZero() })
				took = append(took, lastSign(waiter.String()).Sub(lastSign(holder.String())))
				holder, code, end = waiter, next, nextEnd
			}
			kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
			<-code
			slices.Sort(took)
			if took[0] < 0 {
				t.Errorf("a command began %s before the end of the last one", -took[0])
			}
			t.Logf("%d handovers: median %s, at most %s", handovers, took[handovers/2], took[handovers-1])
		})
	}
}

// With a ttl of 12 s the command survives 8 s without a gateway (with 30 s then 20 s), and ends before another
// client gets the lock, by the server's record.
func TestLockCommandSurvives(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	what := [][]string{{"lock", "nightly"}, {"sem", "jobs", "--limit", "1"}}
	var all sync.WaitGroup
	for _, one := range what {
		all.Go(func() { testSurvives(t, p, one) })
	}
	all.Wait()
}

func testSurvives(t *testing.T, p *program, what []string) {
	var mu sync.Mutex
	var renewed time.Time // when the last renewal was forwarded
	away := false
	server := between(t, p, func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if away {
			panic(http.ErrAbortHandler) // closes the connection
		}
		if strings.HasSuffix(r.URL.Path, "/renew") {
			renewed = time.Now()
		}
		return false
	})
	out, code := start(t, underName([]string{"--server", server}, `while :; do `+showLife+`; done`, append(what, "--ttl", "12s")...)...)
	waitFor(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		away = !renewed.IsZero()
		return away
	})
	others, free := start(t, underName([]string{"--server", p.url}, showLife, what...)...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "ending the command") })
	if survived := time.Since(renewed); survived < 8*time.Second {
		t.Errorf("%v: the command was ended %s after the last renewal", what, survived)
	}
	if got := <-code; got != exitLost {
		t.Errorf("%v: exit code %d", what, got)
	}
	if got := <-free; got != 0 {
		t.Errorf("%v: exit code %d of the next one", what, got)
	}
	if left := lastSign(others.String()).Sub(lastSign(out.String())); left < 0 {
		t.Errorf("%v: the command ran %s longer than its lock", what, -left)
	}
}

// After kill -9 the lock is free when its lease or its session ends.
func TestLockCommandKilled(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	out := newLogs()
	process := self(t, out, underName([]string{"--server", p.url}, `echo held; exec sleep 60`, "lock", "nightly", "--ttl", "3s")...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "held") })
	kvslotstest.Must(t, process.Process.Kill())
	_ = process.Wait()
	wantCall(t, 0, "ran\n", "", underName([]string{"--server", p.url}, `echo ran`, "lock", "nightly", "-w", "1m")...)
}

// 50 jobs take two or three of the same pools, in any order, and never wait for each other. The
// same for locks.
func TestSeveralNeverDeadlock(t *testing.T) {
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval")
	transport := []string{"--server", p.url}
	things := map[string][]string{"lock": {"a", "b", "c"}, "run": nil}
	for range 3 {
		id := uuid.NewString()
		p.want(t, "PUT", "/l/"+id, `{"count":1}`, 200, "")
		things["run"] = append(things["run"], id)
	}
	for command, all := range things {
		t.Run(command, func(t *testing.T) {
			var jobs sync.WaitGroup
			for i := range 50 {
				args := []string{command, all[i%3], "--also", all[(i+1+i%2)%3], "--wait", "10m"}
				if i%5 == 0 {
					args = append(args, "--also", all[(i+2-i%2)%3])
				}
				jobs.Go(func() { wantCall(t, 0, "ran\n", "", underName(transport, `echo ran`, args...)...) })
			}
			jobs.Wait()
		})
	}
	for _, id := range things["run"] {
		p.want(t, "GET", "/l/"+id, "", 200, `"in_use":0`)
	}
}

// If one of several is taken, none is held.
func TestSeveralAllOrNothing(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		free := uuid.NewString()
		p.want(t, "PUT", "/l/"+free, `{"count":1}`, 200, "")
		p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
		for _, also := range [][]string{{pool, "--also", free}, {free, "--also", pool}} {
			args := append(append([]string{"run"}, also...), "--wait", "1s")
			wantCall(t, 75, "", "kvslots: no resource available; place \\d+ in the line\n", underName(transport, `echo ran`, args...)...)
			p.want(t, "GET", "/l/"+free, "", 200, `"in_use":0`)
		}
		p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
		wantCall(t, 0, "0 0,0 [0-9]+,[0-9]+\n", "", underName(transport, `echo $KVSLOTS_POSITION $KVSLOTS_POSITIONS $KVSLOTS_FENCES`, "run", pool, "--also", free)...)
		p.want(t, "GET", "/l/"+free, "", 200, `"in_use":0`)
	})
}

func TestRenewCommand(t *testing.T) {
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
		out := wantCall(t, 0, "KVSLOTS_LEASE=.*", "", append([]string{"borrow", pool}, transport...)...)
		lease := strings.TrimPrefix(strings.SplitN(out, "\n", 2)[0], "KVSLOTS_LEASE=")
		wantCall(t, 0, fmt.Sprintf("KVSLOTS_LEASE=%s\n.*KVSLOTS_EXPIRES_IN=600\nexport .*\n", lease), "", append([]string{"renew", pool, lease, "--ttl", "10m"}, transport...)...)
		wantCall(t, 0, "returned\n", "", append([]string{"return", pool, lease}, transport...)...)
		wantCall(t, 1, "", "kvslots: .*\n", append([]string{"renew", pool, lease}, transport...)...)
	})
}

// A command that waits goes on in another session when no gateway has answered until the end of its first one.
func TestLockCommandWaitsWithoutGateway(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	var mu sync.Mutex
	waits, away, anew := false, false, false
	server := between(t, p, func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		waits = waits || strings.HasPrefix(r.URL.Path, "/v1/locks/")
		if away {
			anew = anew || r.Method == http.MethodPost && r.URL.Path == "/v1/sessions"
			panic(http.ErrAbortHandler) // closes the connection
		}
		return false
	})
	is := func(what *bool) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return *what
		}
	}
	free := filepath.Join(t.TempDir(), "free")
	held, first := start(t, underName([]string{"--server", p.url}, `echo held; while [ ! -e `+free+` ]; do sleep 0.05; done`, "lock", "nightly")...)
	waitFor(t, func() bool { return strings.Contains(held.String(), "held") })
	out, second := start(t, underName([]string{"--server", server}, `echo runs`, "lock", "nightly", "--ttl", "2s")...)
	waitFor(t, is(&waits))
	mu.Lock()
	away = true
	mu.Unlock()
	waitFor(t, is(&anew))
	mu.Lock()
	away = false
	mu.Unlock()
	kvslotstest.Must(t, os.WriteFile(free, nil, 0o600))
	if one, two := <-first, <-second; one != 0 || two != 0 || !strings.Contains(out.String(), "runs") {
		t.Errorf("exit codes %d and %d:\n%s", one, two, out)
	}
}
