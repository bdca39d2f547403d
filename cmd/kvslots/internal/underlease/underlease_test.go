//go:build unix

package underlease

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is the result of Borrow of a fakeSlot.
type answer struct {
	late    time.Duration // the lease began that long ago
	ended   bool          // it ends at once
	trouble error         // of its renewals
	err     error
}

// fakeSlot grants leases of a ttl, and records its calls.
type fakeSlot struct {
	ttl       time.Duration
	answers   []answer // to Borrow, in turn
	returnErr error

	calls []string
}

func (f *fakeSlot) Borrow(context.Context) (Lease, error) {
	f.calls = append(f.calls, "borrow")
	next := f.answers[0]
	f.answers = f.answers[1:]
	if next.err != nil {
		return nil, next.err
	}
	lease := fakeLease{ttl: f.ttl, ends: clock.Now() + f.ttl - next.late, done: make(chan struct{}), trouble: next.trouble}
	if next.ended {
		close(lease.done)
	}
	return lease, nil
}

func (f *fakeSlot) Return(context.Context) error {
	f.calls = append(f.calls, "return")
	return f.returnErr
}

func (f *fakeSlot) asked() string { return strings.Join(f.calls, " ") }

// unanswered is a slot whose lease cannot be returned.
type unanswered struct{ Slot }

func (unanswered) Return(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestReturnsForAsLongAsAllClients(t *testing.T) {
	for lost, want := range map[bool]time.Duration{false: 10 * time.Second, true: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			printed := ""
			r := &runner{Config: Config{Slot: unanswered{}}, signals: &signals{}, lost: lost}
			r.Printf = func(format string, v ...any) { printed += fmt.Sprintf(format, v...) }
			began := time.Now()
			r.finish(t.Context())
			if got := time.Since(began); got != want || printed != "the slot was not returned, and is free when its lease ends: context deadline exceeded" {
				t.Errorf("lost %v: after %v %q", lost, got, printed)
			}
		})
	}
}

func TestRun(t *testing.T) {
	const (
		ttl     = time.Hour
		short   = time.Second
		forever = `while :; do sleep 0.02; done`
	)
	failed := errors.New("failed")
	for _, c := range []struct {
		name   string
		slot   fakeSlot
		script string
		code   int
		err    string
		asked  string
		output string // of the script, and for the user
	}{
		{"ends", fakeSlot{ttl: ttl, answers: []answer{{}}}, `echo ran; exit 3`, 3, "", "borrow return", "ran\n"},
		{"dies of a signal", fakeSlot{ttl: ttl, answers: []answer{{}}}, `kill -9 $$`, 128 + 9, "", "borrow return", ""},
		{"no lease", fakeSlot{answers: []answer{{err: failed}}}, `echo ran`, 0, "failed", "borrow", ""},
		{"too short a lease", fakeSlot{ttl: time.Second / 10, answers: []answer{{}}}, `echo ran`, 0,
			"the gateway grants leases of at most 100ms", "borrow return", ""},
		{"a late answer", fakeSlot{ttl: ttl, answers: []answer{{late: ttl}, {}}}, `echo ran`, 0, "", "borrow return borrow return", "ran\n"},
		{"cannot be returned", fakeSlot{ttl: ttl, answers: []answer{{}}, returnErr: failed}, `exit 3`, 3, "", "borrow return",
			"the slot was not returned, and is free when its lease ends: failed\n"},
		{"lost", fakeSlot{ttl: ttl, answers: []answer{{ended: true, trouble: failed}}}, forever, ExitLost, "",
			"borrow return", "the lease is lost: failed; ending the command\n"},
		{"not renewed", fakeSlot{ttl: short, answers: []answer{{trouble: failed}}}, forever, ExitLost, "",
			"borrow return", "the lease is about to end; it was not renewed: failed; ending the command\n"},
		{"ends by itself", fakeSlot{ttl: short, answers: []answer{{}}}, forever, ExitLost, "",
			"borrow return", "the lease is about to end; ending the command\n"},
		{"cannot be renewed", fakeSlot{ttl: short, answers: []answer{{trouble: errors.ErrUnsupported}}}, forever, ExitLost, "",
			"borrow return", "the gateway cannot renew leases; the command has to end before its lease does\nthe lease is about to end; ending the command\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var output strings.Builder
			code, err := Run(t.Context(), config(&c.slot, &output, "/bin/sh", "-c", c.script))
			if code != c.code || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d, %v; want %d, %s", code, err, c.code, c.err)
			}
			if got := c.slot.asked(); got != c.asked {
				t.Errorf("asked: %s; want %s", got, c.asked)
			}
			if output.String() != c.output {
				t.Errorf("output %q, want %q", output.String(), c.output)
			}
		})
	}
}

// silentSlot never answers a return.
type silentSlot struct{ fakeSlot }

func (s *silentSlot) Return(ctx context.Context) error {
	s.calls = append(s.calls, "return")
	<-ctx.Done()
	return ctx.Err()
}

// When the lease has ended, the end of Run is not held up by servers that do not answer.
func TestRunDoesNotWaitToReturnALostLease(t *testing.T) {
	slot := &silentSlot{fakeSlot{ttl: time.Hour, answers: []answer{{ended: true}}}}
	cfg := config(&slot.fakeSlot, &strings.Builder{}, "/bin/sh", "-c", `while :; do sleep 0.02; done`)
	cfg.Slot = slot
	if code, err := Run(t.Context(), cfg); code != ExitLost || err != nil || slot.asked() != "borrow return" {
		t.Errorf("%d, %v; asked: %s", code, err, slot.asked())
	}
}

func TestRunWithoutACommand(t *testing.T) {
	for name, want := range map[string]struct {
		code  int
		asked string
	}{
		"no-such-command": {127, ""},
		"/no/such/file":   {127, ""},
		"/":               {126, ""},
	} {
		slot := &fakeSlot{ttl: time.Hour, answers: []answer{{}}}
		code, err := Run(t.Context(), config(slot, &strings.Builder{}, name))
		if code != want.code || err == nil || slot.asked() != want.asked {
			t.Errorf("%s: %d, %v; asked: %s", name, code, err, slot.asked())
		}
	}
}

// A command that cannot be prepared is not started, and its slot is returned.
func TestRunUnprepared(t *testing.T) {
	slot, failed := &fakeSlot{ttl: time.Hour, answers: []answer{{}}}, errors.New("failed")
	var output strings.Builder
	cfg := config(slot, &output, "/bin/echo", "ran")
	cfg.Prepare = func() error { return failed }
	if code, err := Run(t.Context(), cfg); code != 0 || !errors.Is(err, failed) || output.String() != "" || slot.asked() != "borrow return" {
		t.Errorf("%d, %v; output %q; asked: %s", code, err, output.String(), slot.asked())
	}
}

// config runs a command without input. Its output, and what is printed for the
// user, goes to output.
func config(slot Slot, output *strings.Builder, args ...string) Config {
	command := exec.Command(args[0], args[1:]...)
	command.Stdout = output
	return Config{
		Slot: slot, Command: command,
		Prepare:   func() error { return nil },
		KillAfter: 200 * time.Millisecond,
		Printf:    func(format string, v ...any) { fmt.Fprintf(output, format+"\n", v...) },
	}
}
