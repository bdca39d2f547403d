package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func nextEvents(t *testing.T, w kvslots.EventReader) []kvslots.Event {
	t.Helper()
	events, err := w.Next(t.Context())
	kvslotstest.Must(t, err)
	return events
}

// The events over HTTP are those of the Store.
func TestWatch(t *testing.T) {
	g := serve(t)
	ctx, pool, c := t.Context(), uuid.New(), g.overHTTP(t)
	kvslotstest.Must(t, kvslotstest.Err(g.store.Register(ctx, pool, 1, kvslots.WithName("screens"))))
	own := g.store.Watch(0, kvslots.ByID(pool), kvslots.ByName("k"))
	defer own.Close()
	w := c.Watch(0, kvslots.ByID(pool), kvslots.ByName("k"))
	defer w.Close()
	if e := nextEvents(t, w); len(e) != 1 || e[0].Type != kvslots.EventStartsOver || e[0].ID != w.ID() {
		t.Fatalf("%+v", e)
	}
	kvslotstest.Must(t, kvslotstest.Err(own.Next(ctx)))
	session, _, err := g.store.CreateSession(ctx, kvslots.WithLabel("a session"))
	kvslotstest.Must(t, err)
	grant, err := g.store.Acquire(ctx, session, kvslots.Lock("k"), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	lease, err := g.store.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0), kvslots.WithLabel("<me>"))
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(lease.Return(ctx)))
	kvslotstest.Must(t, g.store.Release(ctx, session, kvslots.Lock("k"), grant.Token))
	var want, got []kvslots.Event
	for len(want) < 4 {
		events, err := own.Next(ctx)
		kvslotstest.Must(t, err)
		want = append(want, events...)
	}
	for len(got) < len(want) {
		got = append(got, nextEvents(t, w)...)
	}
	for i := range want {
		want[i].Time = want[i].Time.UTC().Truncate(time.Millisecond)
		want[i].Took = want[i].Took.Round(time.Millisecond)
		is, err := json.Marshal(got[i])
		should, _ := json.Marshal(want[i])
		if err != nil || string(is) != string(should) {
			t.Errorf("got  %s, %v\nwant %s", is, err, should)
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errGone)
	if _, err := w.Next(ended); !errors.Is(err, errGone) {
		t.Errorf("after the end of the context: %v", err)
	}
	if _, err := g.store.Register(ctx, pool, 2); err != nil { // while no stream is open
		t.Fatal(err)
	}
	if e := nextEvents(t, w); e[0].Type != kvslots.EventChanged {
		t.Errorf("afterwards: %+v", e)
	}
}

func TestWatchIsUnsupported(t *testing.T) {
	g := serve(t)
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	for name, c := range map[string]*client.Client{"over NATS": g.overNATS(t), "an old gateway": dial(t, old.URL)} {
		w := c.Watch(0)
		if _, err := w.Next(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		w.Close()
	}
	stranger, err := client.Dial(t.Context(), g.url, client.Config{Token: "another"})
	kvslotstest.Must(t, err)
	defer stranger.Close()
	w := stranger.Watch(0)
	defer w.Close()
	_, err = w.Next(t.Context())
	if refused, ok := errors.AsType[*wire.Refusal](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
}

// A stream that is cut, even within what happened at once, is opened again at its last ID, at the
// next server, and nothing is missing or repeated.
func TestWatchGoesOn(t *testing.T) {
	const at = `"at":"2026-11-23T19:00:00.000Z"`
	answers := []string{
		"retry: 1\n\nid: 5\ndata: {\"id\":5,\"type\":\"starts_over\"," + at + "}\n\ndata: {\"id\":7,\"type\":\"granted\"," + at + ",\"position\":1,\"fence\":8}\n\n",
		"id: 6\n\n:\n\n",
		"data: {\"id\":7,\"type\":\"granted\"," + at + ",\"position\":1,\"fence\":8}\n\ndata: {\"id\":7,\"type\":\"of the future\"," + at + "}\n\n" +
			"id: 7\ndata: {\"id\":7,\"type\":\"granted\"," + at + ",\"position\":2,\"fence\":9}\n\n",
	}
	var asked atomic.Int64
	var after []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1) - 1
		after = append(after, r.Header.Get(wire.LastEventIDHeader))
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answers[min(max(0, int(n)-1), 2)])
	})
	one, two := httptest.NewServer(handler), httptest.NewServer(handler)
	defer one.Close()
	defer two.Close()
	c := dial(t, one.URL+","+two.URL)
	w := c.Watch(0)
	defer w.Close()
	if e := nextEvents(t, w); len(e) != 1 || e[0].ID != 5 {
		t.Fatalf("%+v", e)
	}
	if e := nextEvents(t, w); len(e) != 2 || e[0].Fence != 8 || e[1].Position != 2 || w.ID() != 7 {
		t.Fatalf("%+v", e)
	}
	if got := strings.Join(after, " "); got != " 5 5 6" {
		t.Errorf("asked for events after %q", got)
	}
}

// A gateway that is none can fill no client's memory: by an answer, or by events without an ID.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel() // waits for seconds
	var sent atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := []byte(strings.Repeat("x", 1<<10) + "\n")
		if r.URL.Path == wire.EventsPath {
			w.Header().Set("Content-Type", "text/event-stream")
			line = append([]byte(`data: {"type":"granted","at":"2026-11-23T19:00:00.104Z","label":"`), strings.Repeat("x", 1<<10)+"\"}\n\n"...)
		}
		for r.Context().Err() == nil {
			n, _ := w.Write(line)
			sent.Add(int64(n))
		}
	}))
	defer srv.Close()
	c, err := client.Dial(t.Context(), srv.URL, client.Config{})
	kvslotstest.Must(t, err)
	defer c.Close()
	if _, _, err := c.ReadPools(t.Context(), kvslots.PoolQuery{Max: 1}); !errors.Is(err, client.ErrNotUnderstood) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := c.Watch(0)
	defer w.Close()
	sent.Store(0)
	go func() {
		for sent.Load() < 32<<20 {
			time.Sleep(time.Millisecond)
		}
		cancel() // the stream was opened again, so that more than 16 MiB were sent
	}()
	if events, err := w.Next(ctx); len(events) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d events, %v", len(events), err)
	}
}
