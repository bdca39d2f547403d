package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// A client that waited in line confirms its grant, and holds it after that.
func TestClientConfirms(t *testing.T) {
	g := serve(t)
	srv, store := g.srv, g.store
	listener := srv.Connect()
	confirmations, err := listener.SubscribeSync("kvslots.confirm.>")
	kvslotstest.Must(t, errors.Join(err, listener.Flush()))
	c, pool, ctx := natsclient.New(srv.Connect(), client.Config{}), uuid.New(), t.Context()
	kvslotstest.Must(t, kvslotstest.Err(store.Register(ctx, pool, 1)))
	held, err := store.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	granted := make(chan *kvslots.Lease, 1)
	go func() {
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute))
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	kvslotstest.Eventually(t, "the borrow waits", func() bool {
		state, err := store.Inspect(ctx, pool)
		return err == nil && state.Waiting == 1
	})
	kvslotstest.Must(t, kvslotstest.Err(held.Return(ctx)))
	lease := <-granted
	if lease == nil {
		t.FailNow()
	}
	if err := listener.Flush(); err != nil { // the listener has received everything that was sent before
		t.Fatal(err)
	}
	if n, _, _ := confirmations.Pending(); n != 1 {
		t.Errorf("%d confirmations", n)
	}
	if ok, err := lease.Return(ctx); !ok || err != nil {
		t.Errorf("return: %v, %v", ok, err)
	}
}

// A client that cannot confirm a grant cancels it at the gateway that granted it, and
// returns it through any gateway, in case the first one has stopped.
func TestClientGivesUpWhatItCannotConfirm(t *testing.T) {
	const refused, silent = "kvslots.confirm.test.refused", "kvslots.confirm.test.silent"
	session, token := strings.Repeat("5", 32), strings.Repeat("7", 32)
	lease, pool := uuid.New(), uuid.New()
	errGivenUp := errors.New("given up")
	for _, c := range []struct {
		name, at string
		want     error
	}{
		{"refused", refused, kvslots.ErrUnavailable},
		{"the gateway has ended", "kvslots.confirm.test.gone", kvslots.ErrUnavailable},
		{"given up", silent, errGivenUp},
		{"no confirmation", "$KV.kvslots.x", client.ErrNotUnderstood},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := kvslotstest.Start(t, "")
			replier := srv.Connect()
			unanswered := make(chan struct{}, 2)
			giveUp := func(call func(ctx context.Context) error) error {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					select {
					case <-unanswered:
						cancel(errGivenUp)
					case <-ctx.Done():
					}
				}()
				return call(ctx)
			}
			answers := map[string]string{
				"kvslots.borrow":       fmt.Sprintf(`{"lease":"%s","position":0,"expires_in":30,"fence":1}`, lease),
				"kvslots.lock.acquire": fmt.Sprintf(`{"status":"ok","token":"%s","lease_ttl_s":30}`, token),
			}
			answer := func(subject string, with nats.MsgHandler) {
				kvslotstest.Must(t, kvslotstest.Err(replier.Subscribe(subject, with)))
			}
			for subject, body := range answers {
				answer(subject, func(m *nats.Msg) {
					grant := &nats.Msg{Subject: m.Reply, Reply: c.at, Data: []byte(body), Header: nats.Header{}}
					if m.Header.Get(wire.ConfirmHeader) == "1" {
						grant.Header.Set(wire.ConfirmHeader, "1000")
					}
					_ = replier.PublishMsg(grant)
				})
			}
			answer(refused, func(m *nats.Msg) {
				no := nats.NewMsg(m.Reply)
				no.Header.Set("Nats-Service-Error", "lease not held")
				no.Header.Set("Nats-Service-Error-Code", "404")
				_ = replier.PublishMsg(no)
			})
			answer(silent, func(*nats.Msg) { unanswered <- struct{}{} })
			listener, seen := srv.Connect(), make(chan *nats.Msg, 64)
			for _, subject := range []string{"kvslots.cancel", "kvslots.return", "kvslots.lock.release", "$KV.>", "end"} {
				kvslotstest.Must(t, kvslotstest.Err(listener.ChanSubscribe(subject, seen)))
			}
			nc := srv.Connect()
			kvslotstest.Must(t, errors.Join(replier.Flush(), listener.Flush()))
			dialled := natsclient.New(nc, client.Config{})
			err := giveUp(func(ctx context.Context) error {
				_, err := dialled.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("borrow: %v", err)
			}
			err = giveUp(func(ctx context.Context) error {
				_, err := dialled.Acquire(ctx, session, kvslots.Lock("k"), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("acquire: %v", err)
			}
			kvslotstest.Must(t, nc.Publish("end", nil))
			sent := map[string][]string{}
			for m := <-seen; m.Subject != "end"; m = <-seen {
				sent[m.Subject] = append(sent[m.Subject], m.Header.Get(wire.RequestHeader)+string(m.Data))
			}
			if len(sent["kvslots.cancel"]) != 2 || len(sent["$KV.kvslots.x"]) != 0 {
				t.Errorf("sent %q", sent)
			}
			for subject, secret := range map[string]string{"kvslots.return": lease.String(), "kvslots.lock.release": token} {
				if len(sent[subject]) != 1 || !strings.Contains(sent[subject][0], secret) {
					t.Errorf("to %s was sent %q", subject, sent[subject])
				}
			}
		})
	}
}
