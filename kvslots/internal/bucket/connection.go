package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// silence is how long the connection may deliver nothing that is expected before it is tested.
const silence = 2500 * time.Millisecond

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

// connectionChanged tells the peer that the connection is back, or that the feed is
// interrupted: what a lost connection has not delivered is lost, and a restarted server has
// forgotten its consumers.
func (b *Bucket) connectionChanged(status nats.Status) {
	b.input(b.open, func(p *peer.Peer, now peer.Instant) {
		b.connected = status == nats.CONNECTED
		if b.connected {
			p.Connected(now)
			wake(b.online)
		} else {
			b.interrupt(now)
		}
	})
}

// keepSubscriptions reconnects if the server has dropped the subscription to acknowledgements
// or to replies, as it does when permissions are taken away: nats.go subscribes again only
// when it reconnects.
func (b *Bucket) keepSubscriptions() {
	for clock.Sleep(b.open, silence) {
		var suspect bool
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) { suspect = b.mayLackSubscription(now) })
		if suspect && b.nc.IsConnected() && b.hasLostSubscription() {
			b.log.Warn("NATS delivers nothing to this connection; reconnecting")
			_ = b.nc.ForceReconnect() // if that fails, it is tried again
		}
	}
}

// mayLackSubscription reports whether no reading can be created or writes are not acknowledged.
// Otherwise the subscriptions are not tested, since the test also fails if the connection may
// not publish to its own inbox. Nor are they while the view is being loaded: acknowledgements
// come behind the entries then, and so would the answer to the test.
func (g *guarded) mayLackSubscription(now peer.Instant) bool {
	return g.readErr != nil || g.isUnacked(silence, now) && !g.peer.Loading()
}

// hasLostSubscription reports whether the connection has lost its subscription to
// acknowledgements, or the one to replies. A request to the former needs both.
func (b *Bucket) hasLostSubscription() bool {
	ctx, cancel := context.WithTimeout(b.open, silence)
	defer cancel()
	_, err := b.nc.RequestWithContext(ctx, b.sender.prefix+echo, nil)
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)
}

// echo is the last token of the subject that hasLostSubscription sends to. It is no ID of a write.
const echo = "_echo"

// wake wakes the goroutine that receives from c, now or when it next does.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
