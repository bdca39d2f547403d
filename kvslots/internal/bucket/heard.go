package bucket

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// heard is since when the server has not been heard. An Instant is 0 while it is heard, or
// nothing is expected from it.
type heard struct {
	unacked peer.Instant // since when writes are unanswered
	unled   peer.Instant // since when writes are not known to be written: nothing shows that a leader is reached
	unfed   peer.Instant // since when the feed delivers nothing, although a write was written
	failing peer.Instant // since when nothing answers the requests for a reading
	fedTo   uint64       // the highest revision that the feed has delivered
}

func (h *heard) wrote(now peer.Instant) {
	if h.unacked == 0 {
		h.unacked = now
	}
	if h.unled == 0 {
		h.unled = now
	}
}

// answered records the answer to a write. A leader that is cut off from the other copies of
// the stream goes on refusing, so there only a write that is written shows that it leads.
func (h *heard) answered(a peer.Ack, copies int, now peer.Instant) {
	h.unacked = 0
	switch {
	case a.Outcome == peer.Written:
		h.unled = 0
		if a.Revision > h.fedTo && h.unfed == 0 {
			h.unfed = now
		}
	case a.Outcome == peer.Conflict && copies == 1:
		h.unled = 0
	}
}

func (h *heard) fed(revision uint64) {
	h.fedTo = max(h.fedTo, revision)
	h.unled, h.unfed = 0, 0
}

// isUnacked reports whether a write was sent at least d ago, and no write was answered since.
func (h *heard) isUnacked(d time.Duration, now peer.Instant) bool {
	return h.unacked != 0 && now.Sub(h.unacked) >= d
}

// isUnfed reports whether the feed has delivered nothing for at least d, although a write was
// written.
func (h *heard) isUnfed(d time.Duration, now peer.Instant) bool {
	return h.unfed != 0 && now.Sub(h.unfed) >= d
}

// isCutOff reports whether for at least d no leader of the stream was heard through this
// server, although the peer wrote, or asked for a reading.
func (h *heard) isCutOff(d time.Duration, now peer.Instant) bool {
	return h.unled != 0 && now.Sub(h.unled) >= d || h.failing != 0 && now.Sub(h.failing) >= d
}
