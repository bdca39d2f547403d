//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// A gateway that was stopped for a while finds requests over NATS whose clients have gone. They have
// no effect: the session has left the line and joined it again, through another gateway.
func TestRequestsThatAStoppedGatewayFinds(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	gateway := startGateway(t, "--nats-url", srv.ClientURL())
	other, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
	kvslotstest.Must(t, err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	must := func(err error) {
		t.Helper()
		kvslotstest.Must(t, err)
	}
	newSession := func() string {
		id, _, err := other.CreateSession(t.Context(), kvslots.WithIdle(10*time.Minute))
		must(err)
		return id
	}
	leave := map[string]func(session, key string, nc *nats.Conn){
		"closes its connection": func(session, key string, nc *nats.Conn) {
			must(nc.PublishRequest("kvslots.lock.wait", nc.NewInbox(), waitBody(session, key)))
			must(nc.Flush())
			nc.Close()
		},
		"unsubscribes": func(session, key string, nc *nats.Conn) {
			inbox := nc.NewInbox()
			answers, err := nc.SubscribeSync(inbox)
			must(err)
			must(nc.PublishRequest("kvslots.lock.wait", inbox, waitBody(session, key)))
			must(answers.Unsubscribe())
			must(nc.Flush())
		},
		"cancels": func(session, key string, nc *nats.Conn) {
			ctx, cancel := context.WithCancel(t.Context())
			spy := srv.Connect()
			_, err := spy.Subscribe("kvslots.lock.wait", func(m *nats.Msg) {
				if strings.Contains(string(m.Data), session) {
					cancel()
				}
			})
			must(errors.Join(err, spy.Flush()))
			if _, err := natsclient.New(nc, client.Config{}).Wait(ctx, session, kvslots.Lock(key), time.Minute); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			must(nc.Flush())
		},
	}
	type place struct {
		on                   kvslots.Resource
		holder, token, queue string
	}
	places := map[string]place{}
	enqueue := func(session string, on kvslots.Resource) {
		t.Helper()
		if _, acquired, err := other.Enqueue(t.Context(), session, on, kvslots.WithTTL(time.Minute)); err != nil || acquired {
			t.Fatal(acquired, err)
		}
	}
	for name := range leave {
		p := place{on: kvslots.Lock(uuid.NewString()), holder: newSession(), queue: newSession()}
		g, err := other.Acquire(t.Context(), p.holder, p.on, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
		must(err)
		p.token = g.Token
		enqueue(p.queue, p.on)
		places[name] = p
	}
	_, err = other.Register(t.Context(), uuid.MustParse(pool), 1)
	must(err)

	must(gateway.process.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for !status.Stopped() { // until then it may serve a request, or be in the middle of one
		_, err := syscall.Wait4(gateway.process.Process.Pid, &status, syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			must(err)
		}
	}
	stoppedAt := time.Now()
	for name, ask := range leave {
		ask(places[name].queue, places[name].on.Key, srv.Connect())
	}
	for _, p := range places {
		if _, err := other.Wait(t.Context(), p.queue, p.on, 0); !errors.Is(err, kvslots.ErrNoSlot) {
			t.Error(err)
		}
		enqueue(p.queue, p.on)
	}
	borrowed := make(chan error, 1)
	go func() { // of a client that stays
		_, err := natsclient.New(srv.Connect(), client.Config{}).Borrow(t.Context(), uuid.MustParse(pool), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		borrowed <- err
	}()
	<-time.After(time.Until(stoppedAt.Add(1500 * time.Millisecond))) // the gateway notices that from a second on
	must(gateway.process.Process.Signal(syscall.SIGCONT))

	must(<-borrowed)
	nc := srv.Connect()
	waitFor(t, func() bool { return answered(t, nc, "lock-wait") >= len(leave) })
	for name, p := range places {
		must(other.Release(t.Context(), p.holder, p.on, p.token))
		if _, err := other.Wait(t.Context(), p.queue, p.on, time.Minute); err != nil {
			t.Errorf("a client that %s has taken the session out of the line: %v", name, err)
		}
	}
}

func waitBody(session, key string) []byte {
	return fmt.Appendf(nil, `{"session":%q,"key":%q,"timeout_s":0}`, session, key)
}

// answered returns how many requests to an endpoint the gateway has answered.
func answered(t *testing.T, nc *nats.Conn, endpoint string) int {
	t.Helper()
	m, err := nc.RequestWithContext(t.Context(), "$SRV.STATS.kvslots", nil)
	kvslotstest.Must(t, err)
	var all micro.Stats
	kvslotstest.Must(t, json.Unmarshal(m.Data, &all))
	for _, e := range all.Endpoints {
		var data struct{ Answered int }
		if e.Name == endpoint && json.Unmarshal(e.Data, &data) == nil {
			return data.Answered
		}
	}
	t.Fatalf("no endpoint %s", endpoint)
	return 0
}
