package natsembed

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

const (
	// floodRest is how long no client is accepted from an address after a flood from
	// there. A flood would otherwise go on at once over a new connection. Each further
	// flood doubles the rest, up to maxFloodRest.
	floodRest    = time.Second
	maxFloodRest = 16 * time.Second

	// floodMemory is how long after a rest a flood still counts as a further one.
	floodMemory = time.Minute

	// maxFloodWait is how long a connection from such an address waits to be accepted.
	// Refused at once, a client would try again and again. nats-server closes the
	// connection after connectTimeout.
	maxFloodWait = connectTimeout - time.Second
)

// floods are the addresses from which clients have flooded the gateway. Its zero value has
// none.
type floods struct {
	mu    sync.Mutex
	rests map[netip.Prefix]rest
}

type rest struct {
	length time.Duration
	until  time.Time
}

// note begins the rest of an address, or begins it anew if it is not over: the clients at
// the address that were accepted before may be part of the same flood.
func (f *floods) note(address netip.Prefix, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.rests, func(_ netip.Prefix, r rest) bool { return now.Sub(r.until) > floodMemory })
	r := f.rests[address]
	if now.After(r.until) {
		r.length = min(max(2*r.length, floodRest), maxFloodRest)
	}
	r.until = now.Add(r.length)
	if f.rests == nil {
		f.rests = map[netip.Prefix]rest{}
	}
	f.rests[address] = r
}

// left returns how long an address still rests; it may be negative.
func (f *floods) left(address netip.Prefix, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rests[address].until.Sub(now)
}

// awaitRest waits until an address does not rest, but no longer than maxFloodWait. It
// returns false if the address still rests then, or the server stops.
func (s *Server) awaitRest(address netip.Prefix) bool {
	giveUp := time.Now().Add(maxFloodWait)
	for {
		left := s.floods.left(address, time.Now())
		if left <= 0 {
			return true
		}
		if !s.pause(min(left, time.Until(giveUp))) || time.Now().After(giveUp) {
			return false
		}
	}
}
