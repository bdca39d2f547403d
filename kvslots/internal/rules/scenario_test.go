package rules_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var update = flag.Bool("update", false, "write what the scenarios in testdata come to")

// TestScenarios plays the scenarios in testdata. A scenario is a text of paragraphs:
// commands, followed by ---- and their output. With -update the test rewrites the
// output, to be reviewed as a diff.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(data) {
				t.Errorf("the output of %s has changed; run with -update and review the diff:\n%s", file, got)
			}
		})
	}
}

// play returns the scenario with the output of its commands.
func play(t *testing.T, text string) string {
	s := &scenario{t: t, stream: newStream(), view: newView(), names: map[entry.Hash]string{}}
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		commands, _, isPlay := strings.Cut(paragraph, "\n----")
		if isPlay {
			commands += "\n----\n" + s.run(commands)
		}
		paragraphs = append(paragraphs, strings.TrimSpace(commands))
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// scenario is one pool on a stream, and one view of it.
type scenario struct {
	t      *testing.T
	stream *stream
	view   *rules.View
	names  map[entry.Hash]string
	out    strings.Builder
}

func (s *scenario) run(commands string) string {
	s.out.Reset()
	for line := range strings.SplitSeq(commands, "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			s.command(line)
		}
	}
	return s.out.String()
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// command runs one line: a word, perhaps a name or a position, and options. The view
// skips an entry that is unseen, as in a catch-up one that was overwritten.
func (s *scenario) command(line string) {
	seen := !strings.HasPrefix(line, "unseen ")
	words := strings.Fields(strings.TrimPrefix(line, "unseen "))
	o := options{t: s.t, line: line, values: map[string]string{}}
	for _, v := range words[1:] {
		if key, value, is := strings.Cut(v, "="); is {
			o.values[key] = value
		} else {
			o.of = v
		}
	}
	now := s.stream.instant()
	switch words[0] {
	case "time":
		s.stream.now += o.duration(o.of)
		s.view.Forget(s.stream.instant())
	case "clock":
		s.stream.skew += o.duration(o.of)
	case "pass-over":
		s.view.PassOver(now)
	case "catch-up":
		s.view.Live = false
	case "live":
		s.view.BecomeLive()
	case "choose":
		p := s.view.Pool(poolID(1))
		t, own := p.Ticket(o.number("ticket", 0)), &rules.InFlight{}
		if position, ok := p.Choose(t, own); ok {
			s.printf("position %d\n", position)
		} else {
			s.printf("none\n")
		}
	case "due":
		s.due(now)
	case "outlive":
		s.outlive(o)
	case "show":
		s.show()
	default:
		s.write(s.entry(words[0], o), seen)
	}
}

func (s *scenario) write(e entry.Entry, seen bool) {
	written := s.stream.write(e)
	if seen {
		s.view.Apply(written, 0, s.stream.instant())
		s.printf("%d\n", written.Revision)
	} else {
		s.printf("%d, unseen\n", written.Revision)
	}
}

func (s *scenario) hash(name string) entry.Hash {
	if name == "" {
		return entry.Hash{}
	}
	h := entry.HashOf("scenario", name)
	s.names[h] = name
	return h
}

// entry returns the entry that a word writes. It lives as long as a peer would let it,
// unless an option says otherwise.
func (s *scenario) entry(word string, o options) entry.Entry {
	e := s.value(word, o)
	if life, is := o.values["life"]; is {
		e.TTL = o.duration(life)
	}
	return e
}

func (s *scenario) value(word string, o options) entry.Entry {
	generation, id := o.number("gen", 1), s.hash(o.of)
	switch word {
	case "config":
		e := config(poolID(1), int(o.number("count", 0)), generation)
		e.Config.Closing = o.number("closing", 0) == 1
		if limit := int(o.number("limit", 0)); limit > 0 {
			e.Config.Terms = entry.Terms{Name: "x", Limit: limit, Lock: o.number("lock", 0) == 1}
		}
		return e
	case "delete":
		return marker(rules.ConfigKey(poolID(1)))
	case "corrupt":
		return corrupt(rules.ConfigKey(poolID(1)))
	case "forget":
		return marker(rules.ConfigKey(poolID(1)))
	case "alive":
		return session(id, entry.SessionPeer, time.Hour)
	case "client":
		return session(id, entry.SessionClient, time.Hour)
	case "dead":
		return marker(rules.SessionKey(id))
	case "barrier":
		return entry.Entry{Key: barrierKey(id)}
	case "leave":
		return marker(ticketKey(poolID(1), id, int(o.number("n", 0))))
	case "ticket":
		e := ticket(ticketKey(poolID(1), id, int(o.number("n", 0))), s.hash(o.values["lease"]), generation)
		e.Ticket.Peer, e.Ticket.Place, e.Ticket.Spent = s.hash(o.values["peer"]), o.number("place", 0), o.number("spent", 0) == 1
		e.Ticket.TTL = entry.Span(o.number("enqueued", 0)) * entry.Span(time.Second)
		return e
	}
	return s.slotValue(word, rules.SlotKey(poolID(1), o.position()), o)
}

func (s *scenario) slotValue(word string, key entry.Key, o options) entry.Entry {
	switch word {
	case "claim":
		return claim(key.N, entry.SlotValue{
			Lease: s.hash(o.values["lease"]), Claimer: s.hash(o.values["by"]), Session: s.hash(o.values["for"]),
			Ticket: o.number("ticket", 0), Generation: o.number("gen", 1),
		})
	case "renew":
		last := s.stream.last[key]
		if last.Slot.Fence == 0 {
			last.Slot.Fence = last.Revision
		}
		return claim(key.N, last.Slot)
	case "purge":
		return marker(key)
	}
	s.t.Fatalf("what is %s?", word)
	return entry.Entry{}
}

func (s *scenario) due(now rules.Instant) {
	for _, d := range s.view.Due(time.Second, 100, now) {
		what := "to be purged"
		switch {
		case d.Marker:
			what = "marker to be written again"
		case d.Garbage:
			what = "garbage"
		case d.Ticket != nil:
			what = "to be refreshed"
		}
		s.printf("due: %s at %d, %s\n", s.key(d.Key), d.Revision, what)
	}
}

func (s *scenario) key(k entry.Key) string {
	switch k.Kind {
	case entry.Session:
		return "session " + s.names[k.Session]
	case entry.Ticket:
		return fmt.Sprintf("ticket %d of %s", k.N, s.names[k.Session])
	}
	return fmt.Sprintf("slot %d", k.N)
}

// outlive prints how long a message to a slot would live: a purge, or a value with a
// life of its own.
func (s *scenario) outlive(o options) {
	m := entry.NewPurge(rules.SlotKey(poolID(1), o.position()), 0, rules.MarkerTTL)
	if life, is := o.values["life"]; is {
		m.Marker, m.TTL = false, o.duration(life)
	}
	s.view.Outlive(&m)
	s.printf("lives for %v", m.TTL)
	if m.Outlives != 0 {
		s.printf(", outlives: now + %v", time.UnixMilli(m.Outlives).Sub(s.stream.time()))
	}
	s.printf("\n")
}

func (s *scenario) show() {
	s.printf("at %d%s\n", s.view.Revision, map[bool]string{false: ", catching up"}[s.view.Live])
	p := s.view.Pool(poolID(1))
	if p == nil {
		s.printf("no pool\n")
		return
	}
	s.printf("registered: %v at %d, count %d, in use %d, waiting %d%s\n",
		p.Exists(), p.ConfigRevision(), p.Count(), p.InUse(), p.Waiting(), s.use(p))
	for position := range 8 {
		if slot := p.Slot(position); slot != nil {
			s.printf("slot %d: %s\n", position, s.slot(slot))
		}
	}
	p.Tickets(func(k *rules.Ticket) bool {
		s.printf("ticket %d of %s%s\n", k.Place, s.names[k.Key.Session], aside(k))
		return true
	})
	for _, k := range p.Able() {
		s.printf("a permit for %d\n", k.Place)
	}
}

// use formats what is specific to a named pool.
func (s *scenario) use(p *rules.Pool) string {
	if !p.Terms().Named() {
		return ""
	}
	_, idle := p.IdleSince()
	return fmt.Sprintf("; limit %d, names in use %d, idle: %v, closing %d", p.Terms().Limit, s.view.InNames.Pools, idle, len(s.view.Closings()))
}

func (s *scenario) slot(slot *rules.Slot) string {
	verdict := map[bool]string{true: "good", false: "void"}[slot.Good()]
	if slot.Excluded() {
		verdict += ", excluded"
	}
	switch {
	case !slot.Taken:
		return fmt.Sprintf("marker %d", slot.Revision)
	case slot.Orphaned():
		return fmt.Sprintf("stale at %d, %s", slot.Revision, verdict)
	case !slot.Value.Session.IsZero():
		verdict = "of " + s.names[slot.Value.Session] + ", " + verdict
	}
	return fmt.Sprintf("lease %s at %d, fence %d, ticket %d, %s", s.names[slot.Value.Lease], slot.Revision, cmp.Or(slot.Value.Fence, slot.Revision), slot.Value.Ticket, verdict) // a claim's fence is a time
}

// aside returns why a ticket does not stand in the line.
func aside(k *rules.Ticket) string {
	switch {
	case k.Stands():
		return ""
	case k.Value.Spent:
		return ", spent"
	case k.Claim() != nil:
		return fmt.Sprintf(", claimed by slot %d", k.Claim().Position)
	}
	return ", does not stand"
}

// options are the rest of a command after its word.
type options struct {
	t      *testing.T
	line   string
	of     string
	values map[string]string
}

func (o options) number(name string, otherwise uint64) uint64 {
	text, is := o.values[name]
	if !is {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		o.t.Fatalf("%s: %v", o.line, err)
	}
	return n
}

func (o options) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		o.t.Fatalf("%s: %v", o.line, err)
	}
	return d
}

func (o options) position() int {
	n, err := strconv.Atoi(o.of)
	if err != nil {
		o.t.Fatalf("%s: %v", o.line, err)
	}
	return n
}
