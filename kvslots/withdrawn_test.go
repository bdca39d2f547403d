package kvslots

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// attempt is a borrow some of whose claims may have been withdrawn though others had
// taken them for good: for a moment they count one more. No client was told.
type attempt struct {
	pool       int
	lease      entry.Hash
	granted    bool
	begin, end time.Time
}

// withdrawals notes how many claims that were withdrawn others may have counted during
// each operation.
func (h *history) withdrawals(observed *observer) {
	type span struct {
		begin, end int64
		claims     int
	}
	spans := map[int][]span{}
	for _, b := range h.borrows {
		claims, by := observed.claims[b.lease], b.end
		if b.granted {
			claims-- // the one that was good
		} else if ended, ok := observed.ended[b.lease]; ok {
			by = ended
		} else {
			by = b.end.Add(2 * time.Second)
		}
		if claims > 0 {
			spans[b.pool] = append(spans[b.pool], span{h.at(b.begin), h.at(by), claims})
		}
	}
	for i := range h.ops {
		op := &h.ops[i]
		in := op.Input.(input)
		for _, s := range spans[in.pool] {
			if s.begin <= op.Return && op.Call <= s.end {
				in.withdrawn += s.claims
			}
		}
		if h.lagging {
			in.withdrawn = modelSlots // a peer that cannot know withdraws as well, and the observer skips entries
		}
		op.Input = in
	}
}
