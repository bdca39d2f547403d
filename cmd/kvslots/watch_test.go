package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestWatch(t *testing.T) {
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		out, code := &logtest.Output{}, make(chan int, 1)
		args := append([]string{"watch", pool, "--json", "--interval", "50ms"}, transport...)
		go func() { code <- run(ctx, args, strings.NewReader(""), out, searched(out), noEnv) }()
		waitFor(t, func() bool { return strings.Contains(out.String(), `"in_use":0`) })
		p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 200, "")
		waitFor(t, func() bool { return strings.Contains(out.String(), `"in_use":1`) })
		interrupt()
		if got := <-code; got != exitDone {
			t.Errorf("exit code %d", got)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 2 {
			t.Errorf("%d lines for two states:\n%s", lines, out)
		}
	})
}

// The events of a pool, of a name and of everything are printed as lines and as JSON.
func TestWatchEvents(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	session := p.newSession(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	type command struct {
		args []string
		want string
		out  *logtest.Output
		code chan int
	}
	commands := []*command{
		{args: []string{pool, "--events"}, want: "granted       pool " + kvslots.ByID(uuid.MustParse(pool)).Hash() + " position 0 fence "},
		{args: []string{"--key", "build"}, want: "granted       lock build position 0 fence "},
		{args: []string{"--all", "--json"}, want: `"kind":"lock","key":"build","position":0,"fence":`},
	}
	for _, c := range commands {
		c.out, c.code = &logtest.Output{}, make(chan int, 1)
		args := append([]string{"watch", "--server", p.url}, c.args...)
		go func() { c.code <- run(ctx, args, strings.NewReader(""), c.out, searched(c.out), noEnv) }()
		waitFor(t, func() bool { return strings.Contains(c.out.String(), "starts_over") })
	}
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 200, "")
	if code, _, body := p.askWith(t, session, "POST", "/v1/locks/build", `{"acquire_timeout_s":0}`); code != 200 {
		t.Fatal(code, body)
	}
	for _, c := range commands {
		waitFor(t, func() bool { return strings.Contains(c.out.String(), c.want) })
	}
	interrupt()
	for _, c := range commands {
		if code := <-c.code; code != exitDone {
			t.Errorf("%v: exit code %d", c.args, code)
		}
	}
	if text := commands[1].out.String(); strings.Count(text, "\n") != 2 { // starts_over and granted
		t.Errorf("of a lock:\n%s", text)
	}
	if code, _, stderr := call(t, noEnv, "watch", pool, "--all"); code != exitUsage {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestWatchEndsWithThePool(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	out, code := newLogs(), make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"watch", pool, "--server", p.url, "--interval", "50ms"}, strings.NewReader(""), out, out, noEnv)
	}()
	waitFor(t, func() bool { return strings.Contains(out.String(), "count 2") })
	p.want(t, "DELETE", "/l/"+pool, "", 200, "")
	if got := <-code; got != exitFailed || !strings.HasSuffix(out.String(), "kvslots: no such pool\n") {
		t.Errorf("exit code %d:\n%s", got, out)
	}
}
