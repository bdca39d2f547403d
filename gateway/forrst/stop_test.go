package forrst_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A stopping gateway answers waiting calls, refuses new ones, and waits for running
// ones.
func TestDrain(t *testing.T) {
	h := newBlockingFunc()
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": h.call}))
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

// Closing the server abandons running functions and releases their locks.
func TestClose(t *testing.T) {
	h := newBlockingFunc()
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": h.call}))
	done := make(chan answer)
	go func() {
		done <- d.call(t, "f.f", "", `{"key":"k",`+second30+`}`, 503, `"retryable":false`)
	}()
	<-h.entered
	kvslotstest.Must(t, d.server.Close(t.Context()))
	<-done
	if status, err := d.store.OwnedStatus(t.Context(), "lock:f.f:k"); err != nil || status.Held {
		t.Errorf("%+v, %v", status, err)
	}
	d.call(t, "f.f", "", "", 503, `"retryable":true`)
}

// Calls whose functions do not answer before the deadline are answered with the owners
// of their locks. The locks are released, unless auto_release is false, and the number
// of calls is logged.
func TestFinishCutsCallsShort(t *testing.T) {
	h := newBlockingFunc()
	lines := &logtest.Log{}
	d := newSite(t).startGateway(t, forrst.Config{Functions: functions(map[string]forrst.Func{"f.f": h.call}), Logger: lines.Logger()})
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
	if text := lines.String(); !strings.Contains(text, `"calls":2}`) || strings.Contains(text, "ann") {
		t.Errorf("%s", text)
	}
	d.call(t, "f.f", "", "", 503, `"retryable":true`)
}
