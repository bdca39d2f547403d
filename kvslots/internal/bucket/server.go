package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	// cutOff is how long a server may let the peer hear no leader of the stream. Then
	// another server is tried, which may reach one.
	cutOff = 2 * time.Second

	// After a change of the server, the next one is allowed after minStay. When every server
	// has been tried, it is allowed after twice as long, up to maxStay: no server may reach a
	// leader. While one is elected, a peer may come to the server that is cut off.
	minStay = 2 * time.Second
	maxStay = time.Minute

	changeTimeout = time.Second // of one reconnect
)

// keepServer connects to another server of the cluster if this one reaches no leader of the
// stream: it is cut off from the leader, or has stopped. Nothing else tells the peer, since
// the connection to it stays.
func (b *Bucket) keepServer() {
	changes := 0
	var next peer.Instant
	for clock.Sleep(b.open, cutOff/8) {
		var isCutOff, heard bool
		b.WithPeer(func(p *peer.Peer, now peer.Instant) {
			heard = !b.isCutOff(cutOff/2, now)
			// During a load, acknowledgements come behind the entries.
			isCutOff = b.isCutOff(cutOff, now) && now >= next && (b.failing != 0 || !p.Loading())
		})
		switch {
		case heard && b.now() >= next:
			changes = 0
		case isCutOff && b.nc.IsConnected() && len(b.nc.Servers()) > 1:
			b.changeServer()
			stay := doubled(minStay, changes/len(b.nc.Servers()), maxStay)
			b.WithPeer(func(_ *peer.Peer, now peer.Instant) {
				b.unled, b.failing, next = 0, 0, now.Add(stay)
			})
			changes++
		}
	}
}

// changeServer reconnects to another server. nats.go takes the next one that it knows, which
// may be the same under another name.
func (b *Bucket) changeServer() {
	present := b.nc.ConnectedServerId()
	b.log.Warn("no leader of the bucket's stream is heard through this NATS server; connecting to another one",
		"server", b.nc.ConnectedServerName())
	for range len(b.nc.Servers()) {
		if err := b.nc.ForceReconnect(); err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(b.open, changeTimeout)
		for !b.nc.IsConnected() && clock.Sleep(ctx, time.Millisecond) {
		}
		cancel()
		if b.nc.ConnectedServerId() != present {
			return
		}
	}
}

// isUnanswered reports whether a request to JetStream failed because no leader answered.
func isUnanswered(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && refused.ErrorCode == codeNotAvailable
}
