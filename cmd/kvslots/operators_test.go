//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// hold runs a command that holds a slot or a lock. release ends it, and returns its exit code.
func hold(t *testing.T, transport []string, args ...string) (release func() int) {
	t.Helper()
	on := writeFile(t, "on", "")
	out, code := start(t, underName(transport, `echo held; while [ -e `+on+` ]; do sleep 0.02; done; : hunter2`, args...)...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "held") })
	return func() int {
		_ = os.Remove(on)
		return <-code
	}
}

// asked returns a command with the flags of its transport.
func asked(transport []string, args ...string) []string { return append(args, transport...) }

// Operators see who holds and who waits, in tables and as JSON.
func TestOperatorCommands(t *testing.T) {
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
		wantCall(t, 0, "count 1, .*\n", "", asked(transport, "register", pool, "--count", "1", "--name", "screen <3>")...)
		wantCall(t, 0, "count 1, in use 0, available 1, waiting 0\nhash "+hash+"\nname screen <3>\n", "", asked(transport, "inspect", pool)...)
		release := hold(t, transport, "run", pool, "--label", "ci@b7 <img onerror>")
		waiter, waited := start(t, underName(transport, "true", "run", pool, "--wait", "1m")...)
		waitFor(t, func() bool {
			_, answer := p.ask(t, "GET", "/l/"+pool, "")
			return strings.Contains(answer, `"waiting":1`)
		})

		wantCall(t, 0, `NAME +STATE +IN USE +WAITING +OLDEST WAIT +EXPIRED +TYPE +HASH\nscreen <3> +- +1/1 +1 +\d+s +0 +pool +`+hash[:8]+"\n", "", asked(transport, "ls")...)
		wantCall(t, 0, "NAME[^\n]*\n", "", asked(transport, "ls", "--match", "printer")...)
		wantCall(t, 0, "NAME[^\n]*\nscreen <3> .*\n", "", asked(transport, "ls", "--holder", "CI@b7")...) // holds it
		wantCall(t, 0, "NAME[^\n]*\nscreen <3> .*\n", "", asked(transport, "ls", "--holder", " sh")...)   // waits for it
		wantCall(t, 0, "NAME[^\n]*\n", "", asked(transport, "ls", "--holder", "host7")...)
		wantCall(t, 0, "NAME[^\n]*\nscreen <3> .*\n", "", asked(transport, "ls", "--match", "SCREEN", "--contended", "--sort", "oldest_wait")...)
		wantCall(t, 0, "NAME[^\n]*\nscreen <3> .*\n", "", asked(transport, "top", "--once", "--sort", "expired")...)
		head := "pool " + hash + " screen <3>\ncount 1, in use 1, available 0, waiting 1\n"
		for _, name := range []string{pool, strings.ToUpper(pool), hash, strings.ToUpper(hash), hash[:8], strings.ToUpper(hash[:31]), "screen <3>"} {
			wantCall(t, 0, head+`POSITION  FENCE +HELD FOR  ENDS IN  LABEL\n0 +\d{16} +\d+s +\d+s +ci@b7 <img onerror>\n`, "", asked(transport, "holders", name)...)
		}
		wantCall(t, 0, head+`PLACE  WAITED  LABEL\n1 +\d+s +\S+@\S+:\d+ sh\n`, "", asked(transport, "line", hash)...)

		var list wire.PoolList
		var detail kvslots.PoolDetail
		parse(t, wantCall(t, 0, ".*\n", "", asked(transport, "ls", "--json")...), &list)
		if len(list.Pools) != 1 || list.Pools[0].Hash.String() != hash || list.Pools[0].Name != "screen <3>" || list.Pools[0].OldestWait <= 0 {
			t.Errorf("%+v", list)
		}
		parse(t, wantCall(t, 0, ".*\n", "", asked(transport, "holders", hash, "--json")...), &detail)
		if len(detail.Holders) != 1 || detail.Holders[0].Label != "ci@b7 <img onerror>" || detail.Waiters != nil {
			t.Errorf("%+v", detail)
		}
		detail = kvslots.PoolDetail{}
		parse(t, wantCall(t, 0, ".*\n", "", asked(transport, "line", hash, "--json")...), &detail)
		if len(detail.Waiters) != 1 || detail.Waiters[0].Place != 1 || detail.Holders != nil {
			t.Errorf("%+v", detail)
		}
		wantCall(t, 75, "", "kvslots: no resource available: taken by ci@b7 <img onerror>, for \\d+s; place 2 in the line\n", asked(transport, "borrow", pool)...)
		wantCall(t, 1, "", "kvslots: no pool, lock or semaphore in use has this name; --key .*\n", asked(transport, "pause", "typoo")...)
		if code := release(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if code := <-waited; code != 0 {
			t.Errorf("exit code %d: %s", code, waiter)
		}
	})
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// A lock has the label user@host:pid command, without the command's arguments.
func TestDefaultLabel(t *testing.T) {
	overTransports(t, func(t *testing.T, _ *program, transport []string) {
		for _, command := range [][]string{{"lock", "build"}, {"sem", "build", "--limit", "2"}} {
			release := hold(t, transport, command...)
			out := wantCall(t, 0, command[0]+`.* build\ncount .*\nPOSITION .*\n0 +\d{16} .* \S+@\S+:\d+ sh\n`, "", asked(transport, "holders", "build")...)
			if strings.Contains(out, "hunter2") {
				t.Error("has an argument")
			}
			if code := release(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		}
	})
}

func TestTexts(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, args := range [][]string{
		{"borrow", pool, "--label", long}, {"borrow", pool, "--label", "a\x1b[2J"}, {"run", pool, "--label", "a\u202eb", "--", "true"},
		{"lock", "build", "--label", long, "--", "true"}, {"register", pool, "--count", "1", "--name", "a\nb"},
		{"pause", pool, "--reason", long}, {"out", pool, "1", "--reason", "\x00"},
	} {
		code, _, stderr := call(t, noEnv, append(args, "--server", "http://"+closedPort(t))...)
		if code != exitUsage || !strings.Contains(stderr, "must be 0 to 64 printable characters") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if label := client.DefaultLabel("/bin/a\x1b" + long); len([]rune(label)) > kvslots.MaxLabel || checkText("label", label) != nil {
		t.Errorf("%q", label)
	}
}

// An eviction ends the lease that was shown, and no other.
func TestEvictCommand(t *testing.T) {
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		wantCall(t, 0, "count 2, .*\n", "", asked(transport, "register", pool, "--count", "2")...)
		hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
		release := hold(t, transport, "run", pool, "--ttl", "6s", "--label", "hangs")
		var detail kvslots.PoolDetail
		parse(t, wantCall(t, 0, ".*\n", "", asked(transport, "holders", hash, "--json")...), &detail)
		fence := fmt.Sprint(detail.Holders[0].Fence)
		evict := func(position, fence string, more ...string) []string {
			return append(asked(transport, "evict", hash, "--position", position, "--fence", fence), more...)
		}
		wantCall(t, 1, "", "kvslots: nothing has ended: there is another lease by now, of position 0, fence "+fence+", held for \\d+s by hangs\n", evict("0", "7")...)
		wantCall(t, 1, "", "kvslots: nothing has ended: no one holds position 1\n", evict("1", fence)...)
		p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":1`)
		wantCall(t, 0, "ended the lease of position 0, fence "+fence+", held for \\d+s by hangs; the holder may run on for \\ds\n", "", evict("0", fence)...)
		p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		if code := release(); code != exitLost && code != 0 { // 0 if it ended before its next renewal
			t.Errorf("exit code %d", code)
		}
		wantCall(t, 1, `\{"error":"nothing has ended: no one holds position 0"\}\n`, "kvslots: nothing .*\n", evict("0", fence, "--json")...)
		wantCall(t, 2, "", "kvslots: --fence is missing: .*", asked(transport, "evict", hash, "--position", "0")...)
	})
}

// A command that waits is told of a pause, with the reason, when it asks again, and waits on.
func TestWaitersAreToldOfAPause(t *testing.T) {
	t.Parallel()
	at := []string{"--server", startServe(t, noEnv, "--data-dir", t.TempDir(), "--max-wait", "1s").url}
	const paused = "kvslots: paused: upgrade till 10:00; waiting\n"
	end := t.TempDir()
	holder, code := start(t, underName(at, `echo held; while [ -e `+end+` ]; do sleep 0.02; done`, "lock", "nightly")...)
	waitFor(t, func() bool { return strings.Contains(holder.String(), "held") })
	waiter, waiterCode := start(t, underName(at, `echo ran`, "lock", "nightly")...)
	wantCall(t, 0, ".*", "", asked(at, "pause", "--key", "nightly", "--reason", "upgrade till 10:00")...)
	waitFor(t, func() bool { return waiter.String() == paused })
	kvslotstest.Must(t, os.Remove(end))
	wantCall(t, 0, ".*", "", asked(at, "resume", "--key", "nightly")...)
	if got := []int{<-code, <-waiterCode}; got[0] != 0 || got[1] != 0 || waiter.String() != paused+"ran\n" {
		t.Errorf("exit codes %d, printed %q", got, waiter)
	}
}

// Borrowers get no position that is out of service, and nothing of a paused pool.
func TestOutOfServiceCommands(t *testing.T) {
	overTransports(t, func(t *testing.T, _ *program, transport []string) {
		wantCall(t, 0, "count 2, .*\n", "", asked(transport, "register", pool, "--count", "2")...)
		hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
		wantCall(t, 0, "count 2, in use 0, available 1, waiting 0\n", "", asked(transport, "out", hash, "0", "--reason", "screen broken")...)
		wantCall(t, 0, `(?s).*POSITION .*\n0 +- +- +- +out of service: screen broken\n`, "", asked(transport, "holders", hash)...)
		wantCall(t, 0, "NAME .*\n- +1 out .*\n", "", asked(transport, "ls")...)
		out := wantCall(t, 0, ".*POSITION=1\n.*", "", asked(transport, "borrow", pool)...)
		wantCall(t, 75, "", "kvslots: no resource available: taken by .*", asked(transport, "borrow", pool)...)
		lease := regexp.MustCompile("LEASE=(.*)").FindStringSubmatch(out)[1]
		wantCall(t, 0, "returned\n", "", asked(transport, "return", pool, lease)...)
		wantCall(t, 0, `\{"count":2,"in_use":0,"available":0,"waiting":0\}\n`, "", asked(transport, "pause", hash, "--reason", "cleaning", "--json")...)
		wantCall(t, 75, "", "kvslots: no resource available: paused: cleaning; place 1 in the line\n", asked(transport, "borrow", pool)...)
		wantCall(t, 0, "count 2, .*\nhash .*\npaused: cleaning\nposition 0 out of service: screen broken\n", "", asked(transport, "inspect", pool)...)
		wantCall(t, 0, "NAME .*\n- +paused .*\n", "", asked(transport, "ls")...)
		wantCall(t, 0, "count 2, in use 0, available 1, waiting 0\n", "", asked(transport, "resume", hash)...)
		wantCall(t, 0, "count 2, in use 0, available 2, waiting 0\n", "", asked(transport, "in", hash, "0")...)
		wantCall(t, 0, ".*POSITION=0\n.*", "", asked(transport, "borrow", pool)...)
		wantCall(t, 1, "", "kvslots: (the pool has )?no such position\n", asked(transport, "out", pool, "2")...)
	})
}

// A token that may only read reads, and is refused for changes with what to do.
func TestOperatorTokens(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--auth-token-file", writeFile(t, "tokens", "full-t0ken\nreaders read read-t0ken\n"))
	hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
	wantCall(t, 0, "count 1, .*\n", "", "register", pool, "--count", "1", "--server", p.url, "--auth-token", "full-t0ken")
	for _, transport := range [][]string{{"--server", p.url}, {"--nats-url", p.natsURL(t)}} {
		read, full, wrong := append(transport, "--auth-token", "read-t0ken"), append(transport, "--auth-token", "full-t0ken"), append(transport, "--auth-token", "wr0ng")
		wantCall(t, 0, "NAME.*\n.*"+hash[:8]+"\n", "", asked(read, "ls")...)
		wantCall(t, 0, "pool .*", "", asked(read, "holders", hash)...)
		for _, change := range [][]string{{"evict", hash, "--position", "0", "--fence", "1"}, {"out", hash, "0"}, {"in", hash, "0"}, {"pause", hash}, {"resume", hash}} {
			wantCall(t, 1, "", "kvslots: the token may only read; changes need the gateway's full token\n", asked(read, change...)...)
			wantCall(t, 1, "", "kvslots: unauthorized; the token .* is not one of .*\n", asked(wrong, change...)...)
			wantCall(t, 1, "", "kvslots: unauthorized; .* requires a token.*: give --auth-token-file\n", asked(transport, change...)...)
		}
		wantCall(t, 0, "count 1, in use 0, available 0, waiting 0\n", "", asked(full, "pause", hash)...)
		wantCall(t, 0, "count 1, in use 0, available 1, waiting 0\n", "", asked(full, "resume", hash)...)
		wantCall(t, 1, "", "kvslots: unauthorized; .*", asked(transport, "ls")...)
	}
}

// How commands of operators tell ids, hashes and names apart.
func TestWhichTarget(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":3,"name":"printer"}`, 200, "")
	hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
	p.want(t, "PUT", "/l/"+uuid.NewString(), `{"count":1,"name":"twice"}`, 200, "")
	release := hold(t, []string{"--server", p.url}, "lock", hash, "--also", "build", "--also", "@odd", "--also", "twice")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		want string // the beginning of standard output or error
	}{
		{"id", nil, []string{pool}, 0, "pool " + hash + " printer\n"},
		{"file", nil, []string{"@" + writeFile(t, "pool", pool+"\n")}, 0, "pool " + hash},
		{"hash", nil, []string{hash}, 0, "pool " + hash},
		{"name", nil, []string{"build"}, 0, "lock " + kvslots.ByName("build").Hash() + " build\n"},
		{"name that looks like a hash", nil, []string{"--key", hash}, 0, "lock " + kvslots.ByName(hash).Hash() + " " + hash + "\n"},
		{"name that looks like a file", nil, []string{"--key", "@odd"}, 0, "lock "},
		{"environment", map[string]string{"KVSLOTS_POOL": pool}, nil, 0, "pool " + hash},
		{"argument before environment", map[string]string{"KVSLOTS_POOL": "no UUID"}, []string{"build"}, 0, "lock "},
		{"nothing", nil, nil, 2, "kvslots: no <pool>, no --key, and no KVSLOTS_POOL\n"},
		{"both", nil, []string{hash, "--key", "build"}, 2, "kvslots: <pool> and --key exclude each other\n"},
		{"environment no UUID", map[string]string{"KVSLOTS_POOL": "build"}, nil, 2, "kvslots: KVSLOTS_POOL must be a canonical UUID"},
		{"part of an id", nil, []string{pool[:35]}, 2, "kvslots: <pool> is not a whole UUID; if it is the name of a lock, give it as --key\n"},
		{"unknown id", nil, []string{uuid.NewString()}, 1, "kvslots: no such pool\n"},
		{"unknown hash", nil, []string{strings.Repeat("0", 32)}, 1, "kvslots: no pool, lock or semaphore in use has this hash\n"},
		{"unknown name", nil, []string{"deploy"}, 1, "kvslots: no pool, and no lock or semaphore that is held, waited for or out of service, has this name\n"},
		{"too few digits", nil, []string{hash[:7]}, 1, "kvslots: no pool, and no lock or semaphore that is held, waited for or out of service, has this name; of a hash 8 digits are needed\n"},
		{"public name", nil, []string{"printer"}, 0, "pool " + hash + " printer\n"},
		{"name of two", nil, []string{"twice"}, 1, "kvslots: ref must be the hash or the name of one pool, lock or semaphore; this is of "},
		{"no name", nil, []string{"two words"}, 1, "kvslots: no pool has this name\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"KVSLOTS_SERVER": p.url}
			maps.Copy(env, c.env)
			code, stdout, stderr := call(t, env, append([]string{"holders"}, c.args...)...)
			if code != c.code || !strings.HasPrefix(stdout+stderr, c.want) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			if strings.Contains(stdout+stderr, pool[:35]) {
				t.Error("repeats the id")
			}
		})
	}
	release()
}

// Long lists are read in parts: over NATS an answer has at most 100 of them.
func TestLongLists(t *testing.T) {
	const n = 120
	p, natsURL := startNATSTransport(t)
	c, err := client.Dial(t.Context(), p.url, client.Config{})
	kvslotstest.Must(t, err)
	defer c.Close()
	for range n {
		kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), uuid.New(), 1)))
	}
	many := uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), many, n)))
	var waits sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer waits.Wait()
	defer cancel()
	for range n {
		kvslotstest.Must(t, kvslotstest.Err(c.Borrow(t.Context(), many, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))))
	}
	for range n {
		waits.Go(func() { _, _ = c.Borrow(ctx, many, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute)) })
	}
	waitFor(t, func() bool { state, err := c.Inspect(t.Context(), many); return err == nil && state.Waiting == n })
	hash := kvslots.ByID(many).Hash()
	for _, transport := range [][]string{{"--server", p.url}, {"--nats-url", natsURL}} {
		for _, l := range []struct {
			args []string
			head int
			all  int
		}{{[]string{"ls"}, 1, n + 1}, {[]string{"holders", hash}, 3, n}, {[]string{"line", hash}, 3, n}} {
			for limit, want := range map[string]int{"0": l.all, "7": 7, "100": 100, "110": 110, "1000": l.all} {
				code, out, stderr := call(t, noEnv, asked(transport, append(l.args, "--limit", limit)...)...)
				lines := regexp.MustCompile(`(?m)^.*\n`).FindAllString(out, -1)
				if code != 0 || len(lines) != want+l.head || strings.Contains(stderr, "there are more") != (want < l.all) {
					t.Errorf("%v --limit %s: exit code %d, %d lines, %s", l.args, limit, code, len(lines), stderr)
				}
				slices.Sort(lines)
				if len(slices.Compact(lines)) != want+l.head {
					t.Errorf("%v --limit %s: lines are repeated", l.args, limit)
				}
			}
		}
	}
}

// What others have written reaches no terminal as control characters.
func TestHostileTexts(t *testing.T) {
	const hostile = `\u001b]0;x\u0007\u202e\t\n\u009b2J`
	var hash atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"hash":"` + hash.Load().(string) + `","type":"pool","name":"` + hostile + `","count":2,"in_use":1,"available":0,"waiting":1,"paused":true,"pause_reason":"` + hostile + `"`
		switch {
		case r.URL.Path == "/v1/pools":
			answer = `{"pools":[` + answer + `}]`
		case r.Method == http.MethodDelete:
			answer = `{"evicted":{"position":0,"label":"` + hostile + `","fence":7}`
		default:
			answer += `,"out_of_service":[{"position":1,"reason":"` + hostile + `"}],"leases":[{"position":0,"label":"` + hostile + `","fence":7}],"line":[{"place":1,"label":"` + hostile + `"}]`
		}
		fmt.Fprint(w, answer+"}")
	}))
	defer server.Close()
	good := strings.Repeat("a", 32)
	for _, c := range []struct {
		hash, flag, printed string
		code                int
	}{
		{good, "", `"\x1b]0;x\a\u202e\t\n\u009b2J"`, exitDone},
		{good, "--json", `"` + hostile + `"`, exitDone},
		{hostile, "", "", exitFailed},
	} {
		hash.Store(c.hash)
		for _, args := range [][]string{{"ls"}, {"top", "--once"}, {"holders", pool}, {"line", pool}, {"inspect", pool}, {"evict", pool, "--position", "0", "--fence", "7"}} {
			args := append(args, "--server", server.URL)
			if c.flag != "" {
				args = append(args, c.flag)
			}
			code, out, stderr := call(t, noEnv, args...)
			if args[0] == "evict" && c.hash == hostile { // names no hash
				continue
			}
			if code != c.code || !strings.Contains(out, c.printed) || strings.ContainsAny(out, "\x1b\a\u202e\t\u009b") {
				t.Errorf("%v: exit code %d, %q %s", args, code, out, stderr)
			}
		}
	}
}

// Completion offers the names of locks and the hashes of pools, and sends no part of a secret.
func TestCompletionOfNames(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1,"name":"printers"}`, 200, "")
	_, session := p.ask(t, "POST", "/v1/sessions", "")
	id := regexp.MustCompile(`[0-9a-f]{32}`).FindString(session)
	p.askWith(t, http.Header{"X-Dflockd-Session": {id}}, "POST", "/v1/locks/nightly", `{"acquire_timeout_s":0}`)
	p.askWith(t, http.Header{"X-Dflockd-Session": {id}}, "POST", "/v1/semaphores/builds", `{"acquire_timeout_s":0,"limit":2}`)
	for _, c := range []struct {
		line, offers string
	}{
		{"holders n", "nightly\tlock\n:4"},
		{"evict --key b", "builds\tsemaphore\n:4"},
		{"lock ", "nightly\tlock\n:4"},
		{"sem ", "builds\tsemaphore\n:4"},
		{"pause 0", ":4"},
	} {
		_, stdout, _ := call(t, map[string]string{"KVSLOTS_SERVER": p.url}, append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		if !strings.HasPrefix(stdout, c.offers) {
			t.Errorf("%s offers %q, want %q", c.line, stdout, c.offers)
		}
	}
	if _, stdout, _ := call(t, map[string]string{"KVSLOTS_SERVER": p.url}, "__complete", "holders", ""); !strings.Contains(stdout, "\tpool printers\n") {
		t.Errorf("the pool is not offered: %q", stdout)
	}
}

// Each operator has a token of its own, and the log says which one has changed something.
func TestTokensFile(t *testing.T) {
	t.Parallel() // the file is read again after seconds
	file := writeFile(t, "tokens", "# operators\nann admin ann-t0ken\nbob read bob-t0ken\n")
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--auth-token-file", file)
	p.want(t, "GET", "/v1/pools", "", 401, "")
	wantCall(t, 0, "count 1, .*\n", "", "register", pool, "--count", "1", "--server", p.url, "--auth-token", "ann-t0ken")
	hash := kvslots.ByID(uuid.MustParse(pool)).Hash()
	for _, transport := range [][]string{{"--server", p.url}, {"--nats-url", p.natsURL(t)}} {
		ann, bob := append(transport, "--auth-token", "ann-t0ken"), append(transport, "--auth-token", "bob-t0ken")
		wantCall(t, 0, "pool .*", "", asked(bob, "holders", hash)...)
		wantCall(t, 1, "", "kvslots: the token may only read; .*\n", asked(bob, "pause", hash)...)
		wantCall(t, 0, "count 1, .*\n", "", asked(ann, "pause", hash)...)
		wantCall(t, 0, "count 1, .*\n", "", asked(ann, "resume", hash)...)
		wantCall(t, 0, "count 1, .*\n", "", asked(ann, "pause", "--key", "nightly")...)
	}
	p.logs.Await(t, func(text string) bool { return strings.Contains(text, `"key":"nightly"`) })
	if line := p.logs.waitFor(t, "an operator has taken a pool out of service"); line["operator"] != "ann" || line["pool_hash"] != hash {
		t.Errorf("%v", line)
	}
	kvslotstest.Must(t, os.WriteFile(file, []byte("ann admin another\n"), 0o600))
	waitFor(t, func() bool {
		code, _, _ := p.askWith(t, http.Header{"Authorization": {"Bearer another"}}, "GET", "/v1/pools", "")
		return code == 200
	})
}
