package bucket

import (
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// keepConnection passes changes of the connection's status to the peer.
func (b *Bucket) keepConnection(statuses chan nats.Status) {
	defer b.nc.RemoveStatusListener(statuses)
	for {
		select {
		case <-b.open.Done():
			return
		case status, open := <-statuses:
			if !open {
				statuses = nil
				continue
			}
			b.connectionChanged(status)
		}
	}
}

// connectionChanged tells the peer that the connection is back, or that the watch is
// lost. The deliveries of a lost connection are lost, and a restarted server has
// forgotten its consumers; so there is no point in waiting for a silence.
func (b *Bucket) connectionChanged(status nats.Status) {
	b.input(b.open, func(p *peer.Peer, now peer.Instant) {
		b.connected = status == nats.CONNECTED
		if b.connected {
			p.Connected(now)
			wake(b.online)
		} else if b.watch.ctx != nil && b.watch.ctx.Err() == nil {
			b.watch.cancel()
			p.WatchLost(b.watch.Number, now)
		}
	})
}

// wake wakes the goroutine that receives from c, now or when it next does.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
