package forrst_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestBadArguments(t *testing.T) {
	_, d := startSite(t, nil)
	for _, c := range []struct{ function, arguments, text string }{
		{release, ``, "key must be 1 to 334"},
		{release, `{"key":"lock:k"}`, "owner must be a string"},
		{release, `{"key":"lock:k","owner":1}`, "owner must be a string"},
		{release, `{"key":"lock:k","owner":"x","force":true}`, "no fields but key, owner"},
		{release, `{"key":"lock k","owner":"x"}`, "key must be 1 to 334"},
		{forceRelease, `{}`, "key must be 1 to 334"},
		{forceRelease, `{"key":"` + strings.Repeat("x", 335) + `"}`, "key must be 1 to 334"},
		{status, `{"key":null}`, "key must be 1 to 334"},
		{status, `{"key":"k","key":"k"}`, "key must be given once"},
	} {
		a := d.call(t, c.function, c.arguments, "", 400, `"code":"INVALID_ARGUMENTS"`)
		if !strings.Contains(string(a.body), c.text) {
			t.Errorf("%s %s: %s, want %s", c.function, c.arguments, a.body, c.text)
		}
	}
	d.call(t, status, `{"key":"`+strings.Repeat("x", 334)+`"}`, "", 200, `"locked":false`)
	d.call(t, release, `{"key":"lock:k","owner":"x"}`, "", 404, `"code":"LOCK_NOT_FOUND"`)
	versioned := strings.Replace(envelope(status, `{"key":"lock:k"}`, ""), `"function"`, `"version":"9.0.0","function"`, 1)
	if a := d.post(t, versioned); a.code != 404 || !strings.Contains(string(a.body), `"code":"VERSION_NOT_FOUND"`) {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// force-release needs the gateway's token. Over HTTP the gateway checks it, over NATS
// the server does.
func TestForceReleaseNeedsTheToken(t *testing.T) {
	d := newSite(t).startGateway(t, forrst.Config{Tokens: gateway.NewTokens("hunter2")})
	d.call(t, forceRelease, `{"key":"lock:k"}`, "", 401, `"code":"UNAUTHORIZED"`)
	body := envelope(forceRelease, `{"key":"lock:k"}`, "")
	for authorization, want := range map[string]int{"": 401, "Bearer wrong": 401, "hunter2": 401, "Basic hunter2": 401, "Bearer hunter2": 404, "bearer  hunter2": 404} {
		if code, failure, answer := ask(t, d.server, body, authorization); code != want {
			t.Errorf("%q: %d %s %s", authorization, code, failure, answer)
		}
	}
	if code, _, answer := ask(t, d.server, envelope(status, `{"key":"lock:k"}`, ""), ""); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
}

// Requests that a transport refuses are answered with an envelope, too.
func TestRefuse(t *testing.T) {
	_, d := startSite(t, nil)
	if reply := d.server.Refuse(errors.New("hidden")); reply.Code != 500 || reply.Text != "INTERNAL_ERROR" || strings.Contains(fmt.Sprintf("%s", reply.Body), "hidden") {
		t.Errorf("%+v", reply)
	}
	resp, err := d.Client.Get(d.url)
	kvslotstest.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("GET: %d", resp.StatusCode)
	}
}

// An answer never reports a longer wait than the cap allows.
func TestWaitIsClamped(t *testing.T) {
	d := newSite(t).startGateway(t, forrst.Config{
		Functions: functions(map[string]forrst.Func{"f.f": func(context.Context, forrst.Call) (any, error) { return 1, nil }}),
	})
	d.Lending.MaxWait = time.Second
	options := `{"key":"k","auto_release":false,"ttl":{"value":1,"unit":"minute"},"block":{"value":1,"unit":"day"}}`
	d.call(t, "f.f", "", options, 200, "")
	d.call(t, "f.f", "", options, 408, `"message":"Lock acquisition timed out after 1 second","details":{"key":"k","scope":"function","full_key":"lock:f.f:k","waited":{"value":1,"unit":"second"}},"retryable":true`)
}

// silentStore answers only when the test lets it fail or the context ends.
type silentStore struct {
	ops.OwnedLocks
	fail chan struct{}
}

func (s silentStore) wait(ctx context.Context) error {
	select {
	case <-s.fail:
		return kvslots.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s silentStore) ReleaseOwned(ctx context.Context, _, _ string) error { return s.wait(ctx) }
func (s silentStore) ForceRelease(ctx context.Context, _ string) error    { return s.wait(ctx) }
func (s silentStore) OwnedStatus(ctx context.Context, _ string) (kvslots.OwnedStatus, error) {
	return kvslots.OwnedStatus{}, s.wait(ctx)
}

// fullStore has no room for a lock.
type fullStore struct{ ops.OwnedLocks }

func (fullStore) LockOwned(context.Context, string, string, ...kvslots.Option) (*kvslots.OwnedLock, error) {
	return nil, fmt.Errorf("%w: 1 MiB is free", kvslots.ErrFull)
}

func TestFullStore(t *testing.T) {
	server := forrst.New(fullStore{}, forrst.Config{
		Lending:   gateway.NewLending(),
		Functions: functions(map[string]forrst.Func{"f.f": func(context.Context, forrst.Call) (any, error) { return 1, nil }}),
	})
	code, _, answer := ask(t, server, envelope("f.f", "", `{"key":"k",`+second30+`}`), "")
	if want := `"code":"UNAVAILABLE","message":"The store has no room for new entries","retryable":true`; code != 507 || !strings.Contains(string(answer), want) {
		t.Errorf("%d %s", code, answer)
	}
	if err := server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Config.Timeout does not apply to built-in functions, which report the error of the
// store.
func TestOwnFunctionsHaveTheirOwnTime(t *testing.T) {
	store := silentStore{fail: make(chan struct{})}
	server := forrst.New(store, forrst.Config{Lending: gateway.NewLending(), Functions: &forrst.Functions{}, Timeout: time.Nanosecond})
	answers := make(chan string)
	for function, arguments := range map[string]string{
		status: `{"key":"lock:k"}`, release: `{"key":"lock:k","owner":"ann"}`, forceRelease: `{"key":"lock:k"}`,
	} {
		go func() {
			code, _, answer := ask(t, server, envelope(function, arguments, ""), "")
			answers <- strconv.Itoa(code) + " " + string(answer)
		}()
		var got string
		select {
		case store.fail <- struct{}{}: // received only by a call that is still waiting
			got = <-answers
		case got = <-answers:
		}
		if !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"code":"UNAVAILABLE"`) || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("%s: %s", function, got)
		}
	}
	if err := server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
