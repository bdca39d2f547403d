package sim

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// trace records the events of a run as text.
type trace struct {
	lines []string
	keep  int            // number of lines; 0 keeps all
	about *regexp.Regexp // what a line about an entry or a call must contain; nil: anything
	hash  uint64
	keys  map[entry.Key]struct{} // that were ever in the stream
}

func newTrace(o Options) *trace {
	return &trace{keep: o.KeepLines, about: o.About, hash: 14695981039346656037, keys: map[entry.Key]struct{}{}}
}

// traceAbout is tracef for a line about an entry or a call.
func (s *Simulation) traceAbout(who, format string, args ...any) {
	if s.trace != nil && (s.trace.about == nil || s.trace.about.MatchString(fmt.Sprintf(format, args...))) {
		s.tracef(who, format, args...)
	}
}

// tracef adds a line to the trace, if the run records one.
func (s *Simulation) tracef(who, format string, args ...any) {
	if s.trace == nil {
		return
	}
	t := s.trace
	line := fmt.Sprintf("%12.6f %-12s %s", s.now.Sub(start).Seconds(), who, fmt.Sprintf(format, args...))
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	t.hash = t.hash*1099511628211 ^ h.Sum64()
	t.lines = append(t.lines, line)
	if t.keep > 0 && len(t.lines) > 2*t.keep {
		t.lines = append(t.lines[:0], t.lines[len(t.lines)-t.keep:]...)
	}
}

// String returns the lines that were kept.
func (t *trace) String() string {
	lines := t.lines
	if t.keep > 0 && len(lines) > t.keep {
		lines = lines[len(lines)-t.keep:]
	}
	return strings.Join(lines, "\n")
}

func short(h entry.Hash) string { return fmt.Sprintf("%x", h[:3]) }

func describeKey(k entry.Key) string {
	switch k.Kind {
	case entry.Config:
		return "cfg " + short(k.Pool)
	case entry.Slot:
		return fmt.Sprintf("slot %s/%d", short(k.Pool), k.N)
	case entry.Ticket:
		return fmt.Sprintf("ticket %s/%s.%d", short(k.Pool), short(k.Session), k.N)
	case entry.Session:
		return "session " + short(k.Session)
	case entry.Barrier:
		return "barrier " + short(k.Session)
	}
	return "foreign"
}

func describeWrite(w *peer.Write) string {
	text := fmt.Sprintf("#%d %s", w.ID, describeKey(w.Key))
	switch {
	case w.Marker:
		text += " PURGE"
	case w.Key.Kind != entry.Barrier:
		e := entry.Parse(w.Key.String(), 1, time.Time{}, func(string) string { return "" }, w.Data)
		text += " " + describeValue(&e)
	}
	switch w.Expect {
	case entry.ExpectRevision:
		text += fmt.Sprintf(" over %d", w.Revision)
	case entry.ExpectStream:
		text += fmt.Sprintf(" expecting %d", w.Revision)
	}
	if w.TTL > 0 {
		text += fmt.Sprintf(" ttl %v", w.TTL)
	}
	return text
}

func describeAck(a peer.Ack, answered bool) string {
	if !answered {
		return "no answer"
	}
	switch a.Outcome {
	case peer.Written:
		return fmt.Sprintf("written at %d", a.Revision)
	case peer.Conflict:
		return fmt.Sprintf("refused, stands at %d", a.Revision)
	case peer.InFlight:
		return "refused, in flight"
	case peer.NotNow:
		return "not now"
	case peer.Unknown:
		return "unknown"
	}
	return "never"
}

func describeEntry(e *entry.Entry) string {
	text := fmt.Sprintf("%d %s", e.Revision, describeKey(e.Key))
	if e.Marker {
		return text + " marker"
	}
	return text + " " + describeValue(e)
}

func describeValue(e *entry.Entry) string {
	switch e.Key.Kind {
	case entry.Config:
		v := e.Config
		return fmt.Sprintf("count %d gen %x closing %t %s limit %d lock %t", v.Count, v.Generation, v.Closing, v.Name, v.Limit, v.Lock)
	case entry.Slot:
		v := e.Slot
		return fmt.Sprintf("lease %s by %s ticket %d gen %x ttl %v fence %d unseen %t", short(v.Lease), short(v.Claimer), v.Ticket, v.Generation, v.TTL.Duration(), v.Fence, v.Unseen)
	case entry.Ticket:
		v := e.Ticket
		return fmt.Sprintf("lease %s peer %s gen %x wait %v place %d spent %t", short(v.Lease), short(v.Peer), v.Generation, v.Wait.Duration(), v.Place, v.Spent)
	case entry.Session:
		v := e.Session
		return fmt.Sprintf("%s idle %v idled %v", v.Kind, v.Idle.Duration(), v.Idled.Duration())
	}
	return ""
}

// describeTarget returns which pool, session and lease a request names.
func describeTarget(t *target) (text string) {
	for _, named := range []struct {
		what string
		id   entry.Hash
	}{{"pool", t.pool}, {"session", t.session}, {"lease", t.lease}} {
		if !named.id.IsZero() {
			text += " " + named.what + " " + short(named.id)
		}
	}
	return strings.TrimSpace(text)
}

func describeRequest(r peer.Request) string {
	t := targetOf(r)
	text := strings.TrimPrefix(fmt.Sprintf("%T", r), "peer.")
	addIf := func(known bool, format string, values ...any) {
		if known {
			text += fmt.Sprintf(format, values...)
		}
	}
	addIf(describeTarget(&t) != "", " %s", describeTarget(&t))
	addIf(t.named, " %q limit %d lock %t", t.terms.Name, t.terms.Limit, t.terms.Lock)
	addIf(t.ttl > 0, " ttl %v", t.ttl)
	addIf(t.wait > 0, " wait %v", t.wait)
	addIf(!t.request.IsZero(), " key %s", short(t.request))
	switch r := r.(type) {
	case peer.Acquire:
		text += fmt.Sprintf(" owner %q", r.Owner)
	case peer.Register:
		text += fmt.Sprintf(" count %d", r.Count)
	case peer.ReleaseOwned:
		text += fmt.Sprintf(" owner %q force %t", r.Owner, r.Force)
	case peer.Evict:
		text += fmt.Sprintf(" position %d fence %d", r.Position, r.Fence)
	case peer.SetOut:
		text += fmt.Sprintf(" position %d in service %t", r.Position, r.InService)
	case peer.CreateSession:
		text += fmt.Sprintf(" session %s idle %v", short(r.Session), r.Idle)
	}
	return text
}

func describeAnswer(a *peer.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Grant.TTL > 0:
		return fmt.Sprintf("position %d fence %d for %v", a.Grant.Position, a.Grant.Fence, a.Grant.TTL)
	}
	text := fmt.Sprintf("ok, queued %t", a.Queued)
	if a.Detail != nil {
		text += fmt.Sprintf(" state %+v", a.Detail.State)
	}
	return text
}
