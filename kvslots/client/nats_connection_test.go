package client_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The loss of a connection ends the requests that wait for an answer, and no request that is sent after it.
func TestNATSConnectionIsLost(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	silent, received := atomic.Bool{}, make(chan struct{}, 1)
	replier := srv.Connect()
	_, err := replier.Subscribe("kvslots.>", func(m *nats.Msg) {
		if silent.Load() {
			received <- struct{}{}
		} else {
			_ = m.Respond([]byte(`{}`))
		}
	})
	kvslotstest.Must(t, errors.Join(err, replier.Flush()))
	nc := srv.Connect(nats.ReconnectWait(time.Millisecond))
	c, pool := natsclient.New(nc, client.Config{Timeout: time.Hour}), uuid.New()
	lose := func(lose func()) error {
		silent.Store(true)
		defer silent.Store(false)
		lost := make(chan error, 1)
		go func() {
			_, err := c.Inspect(t.Context(), pool)
			lost <- err
		}()
		<-received
		lose()
		return <-lost
	}
	for range 50 {
		connected := nc.Stats().Reconnects
		err := lose(func() {
			if err := nc.ForceReconnect(); err != nil {
				t.Error(err)
			}
		})
		if _, ok := errors.AsType[*client.Unanswered](err); !ok {
			t.Fatalf("while it waits: %v", err)
		}
		kvslotstest.Eventually(t, "connected again", func() bool { return nc.IsConnected() && nc.Stats().Reconnects > connected })
		if _, err := c.Inspect(t.Context(), pool); !errors.Is(err, client.ErrNotUnderstood) { // it was answered
			t.Fatalf("connected again: %v", err)
		}
	}
	if err := lose(nc.Close); !errors.Is(err, kvslots.ErrClosed) {
		t.Errorf("closed while it waits: %v", err)
	}
	if _, err := c.Inspect(t.Context(), pool); !errors.Is(err, kvslots.ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
}
