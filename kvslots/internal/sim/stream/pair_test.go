package stream_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// tooSlow is how long after the first write with a TTL the real server may begin to
// expire messages. The shortest TTL is a second.
const tooSlow = 900 * time.Millisecond

// pair is a model and a real stream that get the same requests.
type pair struct {
	t             *testing.T
	random        *rand.Rand
	model         *stream.Stream
	real          *realStream
	now           time.Time // the model's time
	keys          []string
	watch         *realWatch
	modelSeen     []stream.Stored // by a consumer that never lags
	modelConsumer *stream.Consumer

	ttlSince  time.Time // time of the first write with a TTL since the last settling
	abandoned bool      // the machine was too slow to compare

	saved   uint64 // the last sequence when the server's directory was copied
	emptied bool   // since the copy: the server has unlinked its block files

	// toModel maps the server's sequences to the model's. The server expires several
	// messages at once, in another order than the model.
	toModel map[uint64]uint64
	bunches []bunch
}

// bunch is the range of sequences of the server's markers in one settling.
type bunch struct{ first, last uint64 }

func newPair(t *testing.T, real *realStream, random *rand.Rand, first uint64, markerTTL time.Duration) *pair {
	t.Helper()
	p := &pair{t: t, random: random, real: real, now: time.Now(), toModel: map[uint64]uint64{}}
	p.model = stream.New(stream.Options{FirstSequence: first, MarkerTTL: markerTTL, Traps: stream.Plain()}, nil, p.now)
	p.modelConsumer = p.model.Consumer(0)
	p.watch = startWatch(t, real, first)
	for n := range 6 {
		p.keys = append(p.keys, fmt.Sprintf("k.%d", n))
	}
	return p
}

// slow reports whether the real server may have expired messages already.
func (p *pair) slow() bool {
	return !p.ttlSince.IsZero() && time.Since(p.ttlSince) > tooSlow
}

// same compares two results. It ignores a difference if the machine was too slow.
func (p *pair) same(what, real, model string) bool {
	p.t.Helper()
	if p.slow() {
		p.abandoned = true
	} else if real != model {
		p.t.Errorf("%s: %s:\nserver: %s\nmodel:  %s", p.real.name, what, real, model)
	}
	return real == model && !p.abandoned
}

// publish publishes to both. m's expectations are sequences of the model, and are
// translated for the server.
func (p *pair) publish(m stream.Message) bool {
	p.t.Helper()
	if m.Header.TTL != "" && p.ttlSince.IsZero() {
		p.ttlSince = time.Now()
	}
	theirs := m
	theirs.Header.Expected = p.toReal(m.Header.Expected)
	real := p.real.publish(theirs)
	if m.Header.Expected != nil && real.Sequence != 0 {
		// The stored messages differ in their expectations.
		theirs.Header.Expected = m.Header.Expected
	}
	p.now = p.now.Add(time.Millisecond)
	model := p.model.Publish(m, p.now)
	p.drainModel()
	return p.same("ack of "+fmt.Sprint(m.Key, headersOf(m.Header)), p.ackText(p.translateAck(real)), p.ackText(model))
}

func (p *pair) ackText(a stream.Ack) string { return fmt.Sprintf("%+v", a) }

func (p *pair) translateAck(a stream.Ack) stream.Ack {
	if model, ok := p.toModel[a.Revision]; ok {
		a.Description = fmt.Sprintf("wrong last sequence: %d", model)
		a.Revision = model
	}
	return a
}

func (p *pair) toReal(model *uint64) *uint64 {
	if model == nil {
		return nil
	}
	for r, m := range p.toModel {
		if m == *model {
			return &r
		}
	}
	return model
}

func (p *pair) toModelNumber(real *uint64) *uint64 {
	if real == nil {
		return nil
	}
	if m, ok := p.toModel[*real]; ok {
		return &m
	}
	return real
}

// translated returns the server's messages with the model's sequences.
func (p *pair) translated(all []stream.Stored) []stream.Stored {
	if !slices.IsSortedFunc(all, func(a, b stream.Stored) int { return cmp.Compare(a.Sequence, b.Sequence) }) {
		p.t.Errorf("not in the order of the sequences:\n%s", describeAll(all))
	}
	all = slices.Clone(all)
	for i := range all {
		all[i].Sequence = *p.toModelNumber(&all[i].Sequence)
		all[i].Header.Expected = p.toModelNumber(all[i].Header.Expected)
	}
	slices.SortFunc(all, func(a, b stream.Stored) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return all
}

// clear moves a sequence out of a bunch: to begin within a bunch means different
// messages on each side.
func (p *pair) clear(from uint64) uint64 {
	for _, b := range p.bunches {
		if from >= b.first && from <= b.last {
			return b.first
		}
	}
	return from
}

func (p *pair) compareGet(from uint64, limit int) bool {
	p.t.Helper()
	if from = p.clear(from); len(p.bunches) > 0 {
		limit = 10_000 // nor may the end be within a bunch
	}
	model := slices.DeleteFunc(p.model.All(), func(m stream.Stored) bool { return m.Sequence < from })
	model = model[:min(limit, len(model))]
	return p.same(fmt.Sprintf("direct get of %d from %d", limit, from), describeAll(p.translated(p.real.directGet(from, limit))), describeAll(model))
}

func (p *pair) compareConsumer(from uint64) bool {
	p.t.Helper()
	from = p.clear(from)
	var model []stream.Stored
	for c := p.model.Consumer(from); ; {
		m, ok := c.Next()
		if !ok {
			break
		}
		if model = append(model, m); int(c.Delivered()) != len(model) {
			p.t.Errorf("the model's consumer sequence %d came as number %d", c.Delivered(), len(model))
		}
	}
	return p.same(fmt.Sprintf("consumer from %d", from), describeAll(p.translated(p.real.consume(from))), describeAll(model))
}

func (p *pair) compareInfo() bool {
	p.t.Helper()
	real, model := p.real.info(), p.model.Info()
	real.First = *p.toModelNumber(&real.First)
	if len(p.bunches) > 0 && p.clear(real.First) != real.First {
		return true // the first of a bunch may be another key's marker
	}
	return p.same("info", fmt.Sprint(real.First, real.Last), fmt.Sprint(model.First, model.Last))
}

// drainModel drains the model's consumer.
func (p *pair) drainModel() {
	for {
		m, ok := p.modelConsumer.Next()
		if !ok {
			return
		}
		p.modelSeen = append(p.modelSeen, m)
	}
}

// settle lets everything expire on both sides whose time is over within d. It abandons the
// pair if the machine was so slow that markers expired before they were delivered.
func (p *pair) settle(d time.Duration) {
	p.t.Helper()
	before := p.model.Info().Last
	until := p.now.Add(d)
	for {
		at := p.model.NextExpiry()
		if at.IsZero() || at.After(until) {
			break
		}
		p.model.Advance(at)
		p.drainModel()
	}
	p.model.Advance(until)
	p.now, p.ttlSince = until, time.Time{}
	p.emptied = p.emptied || p.model.Len() == 0
	info := p.model.Info()
	eventually(p.t, p.real.name+" to expire what the model does", func() bool {
		return p.real.info().Last >= info.Last && len(p.real.all()) <= p.model.Len() && (p.watch.has(before, info.Last) || p.watch.caughtUp())
	}, func() string {
		return fmt.Sprintf("server:\n%s\nmodel:\n%s\n", describeAll(p.real.all()), describeAll(p.model.All()))
	})
	if p.abandoned = !p.watch.has(before, info.Last); !p.abandoned {
		p.matchMarkers(before, info.Last)
	}
}

// matchMarkers matches the server's markers of a settling with the model's.
func (p *pair) matchMarkers(before, last uint64) {
	p.t.Helper()
	ours := map[string]uint64{}
	for _, m := range p.modelSeen {
		if m.Sequence > before {
			ours[m.Key] = m.Sequence
		}
	}
	theirs := p.watch.after(before)
	for _, m := range theirs {
		p.toModel[m.Sequence] = ours[m.Key]
	}
	if last > before {
		p.bunches = append(p.bunches, bunch{before + 1, last})
	}
	if len(theirs) != len(ours) || p.real.info().Last != last {
		p.t.Errorf("the server wrote %d markers, up to %d, the model %d, up to %d", len(theirs), p.real.info().Last, len(ours), last)
	}
}

// compareWatch compares the deliveries of the server's watch with the model's, which
// never lags. Only overwritten messages may be missing.
func (p *pair) compareWatch() {
	p.t.Helper()
	model := map[string]bool{}
	for _, m := range p.modelSeen {
		model[describe(m)] = true
	}
	for _, m := range p.translated(p.watch.after(0)) {
		if !model[describe(m)] {
			p.t.Errorf("the server delivered what the model did not: %s", describe(m))
		}
	}
}
