package bucket

import (
	"context"
	"errors"
	"time"

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

// keepHearing reconnects if the server has dropped a subscription that lasts as long as the
// connection, as it does when permissions are taken away. When they are given again, only a
// new connection subscribes again. It looks only while a watch cannot be created or writes
// are not acknowledged: a gateway that may not publish to its own inbox seems to be deaf.
func (b *Bucket) keepHearing() {
	for pause(b.open, silence) {
		var waits bool
		b.Look(func(_ *peer.Peer, now peer.Instant) { waits = b.unwatched != nil || b.isUnacked(silence, now) })
		if waits && b.nc.IsConnected() && b.isDeaf() {
			b.log.Warn().Msg("NATS delivers nothing to this connection; reconnecting")
			_ = b.nc.ForceReconnect() // if that fails, it is tried again
		}
	}
}

// isUnacked reports whether a write was sent at least d ago, and none was answered since.
func (g *guarded) isUnacked(d time.Duration, now peer.Instant) bool {
	return g.unacked != 0 && now.Sub(g.unacked) >= d
}

// isDeaf reports whether the connection has lost its subscription to the acknowledgements,
// or the one to the answers to requests. A request to the former needs both.
func (b *Bucket) isDeaf() bool {
	ctx, cancel := context.WithTimeout(b.open, silence)
	defer cancel()
	_, err := b.nc.RequestWithContext(ctx, b.sender.prefix+echo, nil)
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)
}

// echo is the last token of the subject that isDeaf sends to. It is no number of a write.
const echo = "_echo"

// wake wakes the goroutine that receives from c, now or when it next does.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
