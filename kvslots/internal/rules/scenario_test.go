package rules_test

import (
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

// TestScenarios plays the scenarios in testdata. A scenario is text: paragraphs
// of commands, each followed by ---- and what came of it. With -update it is
// written anew, to be read as a diff.
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
				t.Errorf("%s has come to something else; run with -update and read the diff:\n%s", file, got)
			}
		})
	}
}

// play returns the scenario with what comes of it.
func play(t *testing.T, text string) string {
	s := &scenario{t: t, stream: newStream(), world: rules.New(), names: map[entry.Hash]string{}}
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
	world  *rules.World
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

// command is what one line says: a word, perhaps a name or a position, and
// options. An entry that is unseen has been overwritten before its turn.
func (s *scenario) command(line string) {
	seen := !strings.HasPrefix(line, "unseen ")
	words := strings.Fields(strings.TrimPrefix(line, "unseen "))
	o := options{t: s.t, line: line, values: map[string]string{}}
	for _, w := range words[1:] {
		if key, value, is := strings.Cut(w, "="); is {
			o.values[key] = value
		} else {
			o.of = w
		}
	}
	switch words[0] {
	case "time":
		d, err := time.ParseDuration(o.of)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		s.stream.now += d
		s.world.Settle(s.stream.instant())
	case "pass-over":
		s.world.PassOver(s.stream.instant())
	case "reached":
		s.world.Reached(o.number("sent", 0), s.stream.instant())
	case "choose":
		s.choose(o)
	case "seat":
		s.seat(o.number("ticket", 0))
	case "due":
		s.due()
	case "show":
		s.show()
	case "session":
		s.session(s.hash(o.of))
	default:
		s.write(s.entry(words[0], o), seen)
	}
}

func (s *scenario) write(e entry.Entry, seen bool) {
	if e.Key.Kind == entry.Barrier {
		e = s.stream.put(e)
	} else {
		revision, _ := s.stream.write(e, s.stream.revision(e.Key))
		e = s.stream.log[revision-1]
	}
	if seen {
		s.world.Apply(e, s.stream.instant(), 0)
		fmt.Fprintf(&s.out, "%d\n", e.Revision)
	} else {
		fmt.Fprintf(&s.out, "%d, unseen\n", e.Revision)
	}
}

func (s *scenario) hash(name string) entry.Hash {
	h := entry.HashOf("scenario", name)
	s.names[h] = name
	return h
}

func (s *scenario) entry(word string, o options) entry.Entry {
	incarnation := o.number("incarnation", 1)
	session := s.hash(o.of)
	switch word {
	case "config":
		return config(simPool, int(o.number("count", 0)), incarnation)
	case "delete":
		return deleted(simPool, incarnation)
	case "corrupt":
		return corrupt(configKey(simPool))
	case "forget":
		return marker(configKey(simPool))
	case "alive":
		return alive(session, 15*time.Second)
	case "client":
		return client(session, 15*time.Second)
	case "dead":
		return marker(sessionKey(session))
	case "barrier":
		return entry.Entry{Key: barrierKey(session)}
	case "ticket":
		e := ticket(ticketKey(simPool, session, int(o.number("n", 0))), s.hash(o.values["lease"]), incarnation)
		e.Wait.Naming = o.naming()
		e.Wait.Incarnation = max(e.Wait.Terms(), incarnation*o.without("limit"))
		if peer, is := o.values["peer"]; is {
			e = enqueued(e, s.hash(peer))
		}
		e.Wait.Spent = o.number("spent", 0) == 1
		return e
	case "leave":
		return marker(ticketKey(simPool, session, int(o.number("n", 0))))
	}
	key := slotKey(simPool, o.position())
	switch word {
	case "claim":
		v := entry.SlotValue{
			Lease: s.hash(o.values["lease"]), Claimer: s.hash(o.values["by"]), Ticket: o.number("ticket", 0), Naming: o.naming(),
			TTL: entry.Span(10 * time.Second),
		}
		v.Incarnation = max(v.Terms(), incarnation*o.without("limit"))
		if of, is := o.values["for"]; is {
			v.Session = s.hash(of)
		}
		return claim(key, v)
	case "renew":
		v := s.stream.last[key].Slot
		v.Fence = max(v.Fence, s.first(key))
		return claim(key, v)
	case "purge":
		e := marker(key)
		e.Ticket = o.number("ticket", 0)
		return e
	}
	s.t.Fatalf("what is %s?", word)
	return entry.Entry{}
}

func (s *scenario) first(key entry.Key) uint64 {
	if e := s.stream.last[key]; e.Slot.Fence == 0 {
		return e.Revision
	}
	return 0
}

// choose tells which position a borrower may claim; for one who comes to a named
// pool, also whether it is in use under other terms.
func (s *scenario) choose(o options) {
	p := s.world.Pool(simPool)
	n, count := o.naming(), p.Count()
	if n.Name != "" {
		count = n.Limit
	}
	if n.Name != "" && p.Registered() && p.Incarnation() != n.Terms() {
		if p.InDoubt(s.stream.instant()) || p.Disputed() {
			fmt.Fprintln(&s.out, "not decided")
		} else {
			fmt.Fprintln(&s.out, "refused for its terms")
		}
		return
	}
	if position, ok := p.Choose(p.Ticket(o.number("ticket", 0)), &rules.InFlight{}, count); ok {
		fmt.Fprintf(&s.out, "position %d\n", position)
	} else {
		fmt.Fprintln(&s.out, "none")
	}
}

// seat tells what becomes of a ticket that its own peer has come to see.
func (s *scenario) seat(revision uint64) {
	p := s.world.Pool(simPool)
	switch t := p.Ticket(revision); {
	case t.Unsure() && !s.world.Exact():
		fmt.Fprintln(&s.out, "not known yet")
	case t.Unsure() && !p.Agreed():
		fmt.Fprintln(&s.out, "comes again")
	case t.Void():
		fmt.Fprintln(&s.out, "refused for its terms")
	default:
		fmt.Fprintln(&s.out, "waits")
	}
}

func (s *scenario) due() {
	for _, d := range s.world.Due(s.stream.instant(), time.Second, 100) {
		fmt.Fprintf(&s.out, "due: %s at %d, ticket %d\n", s.key(d.Key), d.Revision, d.Ticket)
	}
}

func (s *scenario) key(k entry.Key) string {
	if k.Kind == entry.Session {
		return "session " + s.names[k.Session]
	}
	return fmt.Sprintf("slot %d", k.N)
}

func (s *scenario) show() {
	fmt.Fprintf(&s.out, "at %d, exact: %v\n", s.world.Revision, s.world.Exact())
	p := s.world.Pool(simPool)
	if p == nil {
		fmt.Fprintln(&s.out, "no pool")
		return
	}
	if p.Naming().Name == "" {
		fmt.Fprintf(&s.out, "registered: %v at %d, count %d, in use %d, waiting %d\n", p.Registered(), p.ConfigRevision, p.Count(), p.InUse(), p.Waiting())
	} else {
		fmt.Fprintf(&s.out, "%s, in use %d, waiting %d\n", s.terms(p), p.InUse(), p.Waiting())
	}
	for position := range 8 {
		if slot := p.Slot(position); slot != nil {
			fmt.Fprintf(&s.out, "slot %d: %s\n", position, s.slot(slot))
		}
	}
	p.Tickets(func(k *rules.Ticket) bool {
		fmt.Fprintf(&s.out, "ticket %d of %s%s\n", k.Revision, s.names[k.Key.Session], aside(k))
		return true
	})
	for _, k := range p.Able() {
		fmt.Fprintf(&s.out, "a permit for %d\n", k.Revision)
	}
}

func (s *scenario) slot(slot *rules.Slot) string {
	verdict := []string{"open", "good", "void", "lost"}[slot.Verdict()]
	switch {
	case !slot.Taken && slot.Revision == 0:
		return "absent"
	case !slot.Taken:
		return fmt.Sprintf("marker %d", slot.Revision)
	case slot.Stale():
		return fmt.Sprintf("stale at %d", slot.Revision)
	case !slot.Value.Session.IsZero():
		verdict = "of " + s.names[slot.Value.Session] + ", " + verdict
	}
	return fmt.Sprintf("lease %s at %d, fence %d, ticket %d, %s", s.names[slot.Value.Lease], slot.Revision, slot.Fence, slot.Value.Ticket, verdict)
}

// terms are those of a named pool.
func (s *scenario) terms(p *rules.Pool) string {
	n, named := p.Naming(), s.world.Named()
	if _, idle := p.IdleSince(); idle {
		return fmt.Sprintf("named pools: %d; idle", named)
	}
	kind := "semaphore"
	if n.Lock {
		kind = "lock"
	}
	if p.Disputed() {
		kind = "disputed, " + kind
	}
	return fmt.Sprintf("named pools: %d; %s of %d", named, kind, n.Limit)
}

// aside is why a ticket of a named pool does not stand in the line.
func aside(k *rules.Ticket) string {
	switch {
	case k.Value.Name == "" || k.Stands():
		return ""
	case k.Void():
		return ", void"
	case k.Value.Spent:
		return ", spent"
	case k.Claim() != nil:
		return fmt.Sprintf(", claimed by slot %d", k.Claim().Position)
	}
	return ", does not stand"
}

// session shows what a session has.
func (s *scenario) session(id entry.Hash) {
	fmt.Fprintf(&s.out, "%s: %d slots, %d tickets; %d clients, %d unattended\n",
		s.names[id], len(s.world.SlotsOf(id)), len(s.world.TicketsOf(id)), s.world.Clients(), len(s.world.Unattended(100)))
}

// options are what a command says besides its word.
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

// naming are the terms of a named pool: limit=2, or limit=1 lock=1.
func (o options) naming() entry.Naming {
	limit := int(o.number("limit", 0))
	if limit == 0 {
		return entry.Naming{}
	}
	return entry.Naming{Name: "x", Limit: limit, Lock: o.number("lock", 0) == 1}
}

// without is 1 where an option was not given, and 0 where it was.
func (o options) without(name string) uint64 {
	if _, is := o.values[name]; is {
		return 0
	}
	return 1
}

func (o options) position() int {
	n, err := strconv.Atoi(o.of)
	if err != nil {
		o.t.Fatalf("%s: %v", o.line, err)
	}
	return n
}
