package bucket

import (
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// keepConnection follows the connection's status.
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

// connectionChanged tells the peer. What was delivered while the connection was
// away is lost, and a server that was restarted has lost its consumers without
// saying so; so the watch is taken for lost at once, rather than after a silence.
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

// wake wakes the goroutine that sleeps on c, now or when it comes to sleep.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
