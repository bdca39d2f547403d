package sim

import (
	"fmt"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Coverage counts what runs have exercised: faults, traps, answers, and the transitions
// of peers.
type Coverage map[string]uint64

func (c Coverage) add(what string) { c[what]++ }

func (c Coverage) addN(what string, n uint64) { c[what] += n }

func answerName(c *call) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T ", c.request), "peer.")
	switch a := &c.answer; {
	case a.Err != nil:
		for _, known := range knownErrors {
			if isAny(a.Err, known) {
				return kind + known.Error()
			}
		}
		return kind + "an unknown error"
	case a.Queued:
		return kind + "queued"
	}
	return kind + "ok"
}

var knownErrors = []error{
	peer.ErrNoPool, peer.ErrNoSlot, peer.ErrNotHeld, peer.ErrNotOwner, peer.ErrAlreadyReleased, peer.ErrUnavailable, peer.ErrClosed,
	peer.ErrSessionGone, peer.ErrLimitMismatch, peer.ErrAlreadyEnqueued, peer.ErrNotEnqueued, peer.ErrLeaseExpired, peer.ErrPlaceKept,
	peer.ErrMaxPools, peer.ErrMaxLocks, peer.ErrMaxWaiters, peer.ErrMaxSessions, peer.ErrMaxSessionsPerOrigin,
	peer.ErrMaxLocksPerSession, peer.ErrMaxLocksPerOrigin, peer.ErrMaxTombstones, peer.ErrKeyReused, peer.ErrOtherHolder, peer.ErrNoPosition, peer.ErrNotInLine, peer.ErrMaxOut, errCrashed, errHungUp,
}
