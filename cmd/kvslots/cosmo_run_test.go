//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/cosmo"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestCosmoRun(t *testing.T) {
	nc, limit := onLimits(t)
	sh := func(script string, flags ...string) []string {
		return append(limit(append([]string{"run", "mail"}, flags...)...), "--", "/bin/sh", "-c", script)
	}
	wantNoneHeld := func() {
		t.Helper()
		wantCall(t, 0, "", "", limit("list")...)
	}
	wantCall(t, 0, "mail/0 0\n", "", sh(`echo $KVSLOTS_SLOT $KVSLOTS_POSITION`)...)
	wantNoneHeld()
	wantCall(t, 7, "", "oops\n", sh(`echo oops >&2; exit 7`)...)
	wantCall(t, 128+9, "", "", sh(`kill -9 $$`)...)
	wantNoneHeld()
	wantCall(t, 0, `\{"slot":"mail/0","number":0,"revision":[0-9]+\}`+"\nhi\n", "", sh(`echo hi`, "--json")...)
	wantCall(t, 127, "", `kvslots: .*no-such-command.*not found.*\n`, append(limit("run", "mail"), "--", "no-such-command")...)
	file := filepath.Join(t.TempDir(), "data")
	kvslotstest.Must(t, os.WriteFile(file, nil, 0o600))
	wantCall(t, 126, "", `kvslots: .*permission denied\n`, append(limit("run", "mail"), "--", file)...)
	wantCall(t, 2, "", "kvslots: key must be .*\n", append(limit("run", "m.*"), "--", "true")...)
	wantNoneHeld()

	acquireAsRuby(t, nc, "mail/0", "ruby")
	wantCall(t, 75, "", "kvslots: all slots are taken\n", sh(`echo ran`)...)
	wantCall(t, 75, "", "kvslots: all slots are taken\n", sh(`echo ran`, "--wait", "300ms")...)
	wantCall(t, 0, "mail/1\n", "", sh(`echo $KVSLOTS_SLOT`, "--limit", "2")...)
	wantCall(t, 0, "mail/0: job ruby, .*", "", limit("list")...)
}

// While the command runs, the bucket has its job id. --wait takes the slot when it is free.
func TestCosmoRunWaits(t *testing.T) {
	_, limit := onLimits(t)
	wantCall(t, 0, "", "", limit("list")...) // it creates the bucket
	end := filepath.Join(t.TempDir(), "end")
	done := make(chan struct{})
	go func() {
		defer close(done)
		wantCall(t, 5, "", "", append(limit("run", "mail", "--jid", "first", "--duration", "1m"),
			"--", "/bin/sh", "-c", `while ! test -e `+end+`; do sleep 0.02; done; exit 5`)...)
	}()
	held := func() string {
		_, out, _ := call(t, noEnv, limit("list")...)
		return out
	}
	waitFor(t, func() bool { return strings.HasPrefix(held(), "mail/0: job first, ") })
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		wantCall(t, 0, "second\n", "", append(limit("run", "mail", "--wait", "1m"), "--", "echo", "second")...)
	}()
	kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
	<-done
	<-waiting
}

// The command ends before its duration, by the record of NATS. TestRunCommandEndsBeforeItsLease has
// the commands that do not handle SIGTERM.
func TestCosmoRunEndsBeforeItsDuration(t *testing.T) {
	t.Parallel() // waits for seconds
	nc, limit := onLimits(t)
	wantCall(t, 0, "", "", limit("list")...)
	js, err := jetstream.New(nc)
	kvslotstest.Must(t, err)
	stream, err := js.Stream(t.Context(), "KV_"+cosmo.DefaultBucket)
	kvslotstest.Must(t, err)
	var out string
	done := make(chan struct{})
	go func() {
		defer close(done)
		out = wantCall(t, 124, signsOfLife, "kvslots: the lease is about to end; ending the command\n.*",
			append(limit("run", "mail", "--duration", "3s", "--kill-after", "500ms", "--wait", "1m"), "--", "/bin/sh", "-c", `trap '' TERM; while :; do `+showLife+`; done`)...)
	}()
	var acquired time.Time // by the last acquisition: a slow one is repeated
	waitFor(t, func() bool {
		if entry, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+cosmo.DefaultBucket+".mail/0"); err == nil {
			acquired = entry.Time
		}
		select {
		case <-done:
			return !acquired.IsZero()
		default:
			return false
		}
	})
	if end := acquired.Add(3 * time.Second); !lastSign(out).Before(end) {
		t.Errorf("alive at %s, the slot was free at %s", lastSign(out), end)
	}
	wantCall(t, 0, "", "", limit("list")...)
}

// cosmo run passes signals to the command. A signal during the wait ends it.
func TestCosmoRunPassesSignals(t *testing.T) {
	nc, limit := onLimits(t)
	out := newLogs()
	process := self(t, out, append(limit("run", "mail"), "--", "/bin/sh", "-c",
		`trap 'echo got INT; exit 9' INT; trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.05; done`)...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
	if code := endBy(t, process, syscall.SIGINT); code != 9 || strings.Contains(out.String(), "got TERM") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	wantCall(t, 0, "", "", limit("list")...)

	acquireAsRuby(t, nc, "mail/0", "ruby")
	requests, err := nc.SubscribeSync("$KV.cosmo_jobs_limits.>")
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, nc.Flush())
	out = newLogs()
	process = self(t, out, append(limit("run", "mail", "--wait", "50s"), "--", "echo", "ran")...)
	if _, err := requests.NextMsgWithContext(t.Context()); err != nil { // it waits
		t.Fatal(err)
	}
	if code := endBy(t, process, syscall.SIGTERM); code != 128+15 || strings.Contains(out.String(), "ran") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	wantCall(t, 0, "mail/0: job ruby, .*", "", limit("list")...)
}

// The default of --jid names the host and the process.
func TestCosmoRunDefaultJobID(t *testing.T) {
	if got := defaultJobID(); !regexp.MustCompile(`^.*:[0-9]+$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// A second signal ends the attempts to release the slot, which ends them with the connection.
func TestCosmoRunGivesUpTheRelease(t *testing.T) {
	_, url := runNATS(t, jetStreamOptions(t))
	url, cut := throughWire(t, url)
	nc := connectNATS(t, url)
	limiter, err := cosmo.New(t.Context(), nc, cosmo.Config{})
	kvslotstest.Must(t, err)
	slot, err := limiter.Acquire(t.Context(), "mail", "j", 1, time.Hour)
	kvslotstest.Must(t, err)
	cut()
	ctx, signalled := context.WithCancel(t.Context())
	signalled()
	s := &cosmoSlot{nc: nc, limiter: limiter, slot: slot}
	if err := s.Return(ctx); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}

// If NATS cannot be reached when the command has ended, the exit code is still that of the
// command.
func TestCosmoRunWithoutNATSAtTheEnd(t *testing.T) {
	t.Parallel() // waits for seconds
	_, url := runNATS(t, jetStreamOptions(t))
	url, cut := throughWire(t, url)
	end := filepath.Join(t.TempDir(), "end")
	out, errs, code := &logtest.Output{}, &logtest.Log{}, make(chan int, 1)
	args := []string{
		"cosmo", "run", "mail", "--nats-url", url, "--duration", "1h", "--",
		"/bin/sh", "-c", `echo ready; while ! test -e ` + end + `; do sleep 0.02; done; exit 5`,
	}
	go func() { code <- run(t.Context(), args, strings.NewReader(""), out, errs, noEnv) }()
	waitFor(t, func() bool { return out.String() == "ready\n" })
	cut()
	kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
	if got := <-code; got != 5 || !strings.HasPrefix(errs.String(), "kvslots: the slot was not returned, and is free when its lease ends: ") {
		t.Errorf("exit code %d, stderr %q", got, errs)
	}
}
