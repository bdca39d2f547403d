package natsclient

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// followFor is how long a gateway follows something before the client asks again. For that
	// time, and followGrace, nothing is followed if the gateway has died.
	followFor = 20 * time.Second

	followGrace = 5 * time.Second

	// firstUnfollowed is the longest first pause after a request without success. Each further
	// one may be twice as long, up to longestUnfollowed. Meanwhile renewals tell of an end.
	firstUnfollowed   = time.Second
	longestUnfollowed = time.Minute
)

func (n *overNATS) Follow(ctx context.Context, r transport.Request) error {
	nc, err := n.connected(ctx)
	if err != nil {
		return err
	}
	back := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(back)
	if r.Wait = followFor; r.Body.ID != nil {
		r.Body.Wait = wire.Seconds(followFor)
	} else {
		r.Body.WaitTimeout = new(wire.Seconds(followFor))
	}
	for pause := firstUnfollowed; ; {
		sent := time.Now()
		var followed wire.Followed
		within, cancel := context.WithTimeoutCause(ctx, followFor+followGrace, client.ErrAnswerTimeout)
		err := n.Ask(within, r, func(a transport.Answer) error { return a.Decode(&followed) })
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case followed.Ended:
			return followed.Err()
		case err != nil && (!client.Temporary(err) || nc.IsClosed()):
			return err
		case err == nil && time.Since(sent) >= followFor/2:
			pause = firstUnfollowed
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-back:
			pause = firstUnfollowed
		case <-time.After(pause/2 + rand.N(pause/2)): // random, so that many clients do not ask at once
			pause = min(2*pause, longestUnfollowed)
		}
	}
}
