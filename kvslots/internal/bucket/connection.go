package bucket

import (
	"context"

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

// keepHearing reconnects if the server has dropped the subscriptions of the connection,
// as it does when permissions are taken away. When they are given again, only a new
// connection subscribes again.
func (b *Bucket) keepHearing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if b.nc.IsConnected() && !b.hears(ctx) {
		b.log.Warn().Msg("NATS delivers nothing to this connection; reconnecting")
		_ = b.nc.ForceReconnect() // if that fails, the next call tries again
	}
}

// hears reports whether the subscription to the acknowledgements delivers.
func (b *Bucket) hears(ctx context.Context) bool {
	select {
	case <-b.echo: // of an earlier call
	default:
	}
	if b.nc.Publish(b.sender.prefix+echo, nil) != nil {
		return false
	}
	select {
	case <-b.echo:
		return true
	case <-ctx.Done():
		return context.Cause(ctx) != context.DeadlineExceeded // the watch was replaced, or the connection lost
	}
}

// echo is the last token of the subject that hears sends to. It is no number of a write.
const echo = "_echo"

// wake wakes the goroutine that receives from c, now or when it next does.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
