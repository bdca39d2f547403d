package bucket

import "github.com/kvslots/kvslots/kvslots/internal/peer"

// progress is how far the deliveries have come.
type progress struct {
	known    uint64       // the highest revision that the server has shown
	joined   bool         // the reading is over: the feed alone delivers
	caughtUp peer.Instant // when the feed last delivered the highest known revision
}

func (p *progress) note(revision uint64) { p.known = max(p.known, revision) }

func (p *progress) fed(revision uint64, now peer.Instant) {
	if p.note(revision); p.joined && revision == p.known {
		p.caughtUp = now
	}
}

// lag returns how many revisions a view is behind the stream, as far as the server has
// said.
func (p *progress) lag(view uint64) uint64 { return p.known - min(view, p.known) }
