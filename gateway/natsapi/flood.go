package natsapi

import "github.com/kvslots/kvslots/kvslots/wire"

// flood finds the requests of a flood whose answers no connection would receive: they name
// no inbox or a made-up one, or the server has disconnected their client (natsembed). To
// drop them takes a fraction of the time of an answer, and requests of other clients wait
// behind them. Each subscription has a flood of its own.
type flood struct {
	identities *identities // nil if the server does not tell which connections subscribe
	subscribed matcher
	left       int // how many requests had arrived at the last look, and have not been handled
}

// drops reports whether to drop a request. waiting is the number of requests that have
// arrived behind it.
//
// A client subscribes before it sends a request, so a look finds the subscriptions for all
// requests that have arrived.
func (f *flood) drops(reply string, waiting int) bool {
	if f.identities == nil || waiting <= floodMessages {
		f.left = 0
		return false
	}
	if f.left--; f.left < 0 {
		f.subscribed, f.left = f.identities.subscribers(), waiting
	}
	return reply == "" || len(f.subscribed(reply)) == 0
}

// shed counts a request that is dropped like one that is refused.
func (s *Service) shed(count *counter) {
	busy := wire.StatusOf(wire.ErrBusy)
	s.ops.Events.Failed(busy.Name)
	count.answered.Add(1)
	count.fail(busy)
}
