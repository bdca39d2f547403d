package kvslots

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// attempt is a lease that a borrow claimed. The claim may have been withdrawn although
// other peers had judged it valid. For a moment those peers counted one more lease, which
// no client had received.
type attempt struct {
	pool       int
	lease      entry.Hash
	granted    bool
	begin, end time.Time
}

// withdrawals records for each operation how many withdrawn claims other peers may have
// counted during it.
func (h *history) withdrawals(observed *observer) {
	type span struct {
		begin, end int64
		claims     int
	}
	spans := map[int][]span{}
	for _, b := range h.borrows {
		claims, by := observed.claims[b.lease], b.end
		if b.granted {
			claims-- // the valid one
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
			in.withdrawn = modelSlots // a peer also withdraws claims of unknown validity, and the observer skips entries
		}
		op.Input = in
	}
}
