package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A file on a mount that hangs is read by one goroutine, whose result counts when the mount
// responds again. It is an error in the log, and delays neither the files of other settings
// for longer than once, nor the end.
func TestReloadsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &logtest.Log{}
		mount, reads, others, first := make(chan string), 0, 0, true
		follow := func(flag string, read func() string) *settings.Followed {
			f := settings.Follow(flag, func() (settings.Contents, error) {
				return settings.Contents{flag: []byte(read())}, nil
			}, func(settings.Contents) error { return nil })
			_, err := f.Reload(t.Context())
			kvslotstest.Must(t, err)
			return f
		}
		hanging := follow("tls-cert", func() string {
			if first {
				first = false
				return "old"
			}
			reads++
			return <-mount
		})
		other := follow("auth-token-file", func() string { others++; return "same" })
		others = 0
		s := &server{settings: &settings.Serve{Followed: []*settings.Followed{hanging, other}}, log: lines.Logger()}
		ctx, stop := context.WithCancel(t.Context())
		ticks, done := make(chan time.Time), make(chan struct{})
		go func() {
			defer close(done)
			s.reload(ctx, nil, ticks)
		}()
		began := time.Now()
		for range 3 {
			ticks <- time.Time{}
		}
		synctest.Wait()
		if took := time.Since(began); reads != 1 || others != 3 || took != settings.ReadTimeout {
			t.Errorf("%d reads of a file that hangs, and %d of another, in %s", reads, others, took)
		}
		if text := lines.String(); strings.Count(text, "does not respond") != 1 || !strings.Contains(text, `"flag":"tls-cert"`) {
			t.Errorf("logged:\n%s", text)
		}
		if age, fresh := hanging.Age(), other.Age(); age != settings.ReadTimeout || fresh != 0 {
			t.Errorf("ages %s and %s", age, fresh)
		}
		mount <- "new"
		synctest.Wait()
		ticks <- time.Time{}
		synctest.Wait()
		if text := lines.String(); reads != 1 || strings.Count(text, `"message":"reloaded","flag":"tls-cert"`) != 1 || hanging.Age() != 0 {
			t.Errorf("after %d reads, logged:\n%s", reads, text)
		}
		ticks <- time.Time{} // hangs again
		synctest.Wait()
		began = time.Now()
		stop()
		if <-done; time.Since(began) != 0 {
			t.Errorf("ends after %s", time.Since(began))
		}
		mount <- "newer"
	})
}
