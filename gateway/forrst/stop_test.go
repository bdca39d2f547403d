package forrst_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
)

// A gateway that stops answers calls that wait, takes none that would, and waits
// for those that are under way.
func TestDrain(t *testing.T) {
	h := newHeld()
	_, d := start(t, functions(map[string]forrst.Func{"f.f": h.call}))
	running, waiting := make(chan answer), make(chan answer)
	go func() { running <- d.call(t, "f.f", "", `{"key":"k",`+second30+`}`, 200, "done") }()
	<-h.entered
	go func() {
		waiting <- d.call(t, "f.f", "", `{"key":"k",`+second30+`,"block":{"value":1,"unit":"minute"}}`, 503, `"code":"UNAVAILABLE"`)
	}()
	gatewaytest.Eventually(t, "a call waits", func() bool { return d.waiters(t) == 1 })
	d.Lending.Stop()
	if a := <-waiting; a.header.Get("Retry-After") != "1" || !strings.Contains(string(a.body), `"retryable":true`) {
		t.Errorf("%v %s", a.header, a.body)
	}
	d.call(t, "f.f", "", `{"key":"other",`+second30+`}`, 503, `"code":"UNAVAILABLE"`)
	d.call(t, status, `{"key":"lock:f.f:k"}`, "", 200, `"locked":true`)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		d.stop()
	}()
	h.leave <- struct{}{}
	<-running
	<-stopped
}

// A server that is closed gives up the functions under way, and releases their
// locks.
func TestClose(t *testing.T) {
	h := newHeld()
	_, d := start(t, functions(map[string]forrst.Func{"f.f": h.call}))
	done := make(chan answer)
	go func() {
		done <- d.call(t, "f.f", "", `{"key":"k",`+second30+`}`, 503, `"retryable":false`)
	}()
	<-h.entered
	if err := d.server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if status, err := d.store.OwnedStatus(t.Context(), "lock:f.f:k"); err != nil || status.Held {
		t.Errorf("%+v, %v", status, err)
	}
	d.call(t, "f.f", "", "", 503, `"retryable":true`)
}

// Calls whose functions outlast the time to stop are answered, with their owners;
// their locks are released, unless they are the callers'; and the log has their
// number.
func TestFinishCutsCallsShort(t *testing.T) {
	h := newHeld()
	lines := &gatewaytest.Logs{}
	d := newSite(t).open(t, forrst.Config{Functions: functions(map[string]forrst.Func{"f.f": h.call}), Logger: zerolog.New(lines)})
	done := make(chan answer)
	for key, release := range map[string]string{"a": "true", "b": "false"} {
		go func() {
			done <- d.call(t, "f.f", "", `{"key":"`+key+`","owner":"ann","auto_release":`+release+`,`+second30+`}`, 503, `"retryable":false`)
		}()
		<-h.entered
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d.server.Finish(ended)
	for range 2 {
		if a := <-done; a.lock(t).Owner != "ann" {
			t.Errorf("%s", a.body)
		}
	}
	for name, held := range map[string]bool{"lock:f.f:a": false, "lock:f.f:b": true} {
		if status, err := d.store.OwnedStatus(t.Context(), name); err != nil || status.Held != held {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
	if text := lines.String(); !strings.Contains(text, `"calls":2,`) || strings.Contains(text, "ann") {
		t.Errorf("%s", text)
	}
	d.call(t, "f.f", "", "", 503, `"retryable":true`)
}
