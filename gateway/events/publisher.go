package events

import (
	"cmp"
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// Publisher publishes the events of a store over NATS, on subjects.Events, the pool's hash and the
// type. Of several gateways on one bucket, the first one publishes. An event may be lost or
// published twice while gateways come and go; a gateway that begins publishes
// kvslots.EventStartsOver.
type Publisher struct {
	store  *kvslots.Store
	nc     *nats.Conn
	cancel context.CancelFunc
	task   sync.WaitGroup
	begun  bool // the last events were published
}

// Publish starts a Publisher. The caller must close nc and the store only after it.
func Publish(store *kvslots.Store, nc *nats.Conn) *Publisher {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{store: store, nc: nc, cancel: cancel}
	p.task.Go(func() { p.run(ctx) })
	return p
}

// Close stops the Publisher.
func (p *Publisher) Close() {
	p.cancel()
	p.task.Wait()
}

func (p *Publisher) run(ctx context.Context) {
	watcher := p.store.Watch(0)
	defer watcher.Close()
	for {
		events, err := watcher.Next(ctx)
		if err != nil {
			return
		}
		p.publish(events)
		if !clock.Sleep(ctx, gather) {
			return
		}
	}
}

// publish publishes events if this gateway is the first one. If one cannot be sent, the next ones
// begin with an EventStartsOver.
func (p *Publisher) publish(events []kvslots.Event) {
	if !p.store.First() {
		p.begun = false
		return
	}
	if !p.begun && events[0].Type != kvslots.EventStartsOver {
		events = append([]kvslots.Event{{Type: kvslots.EventStartsOver, ID: events[0].ID - 1, Time: events[0].Time}}, events...)
	}
	p.begun = true
	for i := range events {
		subject := subjects.Events + cmp.Or(events[i].Hash, subjects.NoPool) + "." + string(events[i].Type)
		if err := p.nc.Publish(subject, events[i].Encoded(encode)); err != nil { // not connected: see noBuffer in package server
			p.begun = false
			return
		}
	}
}
