package natsembed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// A crowd writes records, which the store ignores, into the bucket. A few hundred records
// fill a block: nats-server rewrites blocks with few live records, and removes blocks
// without any. Each writer has one key that it writes often, and others that it writes
// rarely, whose records are the only live ones in old blocks.
const (
	writers   = 16
	keysEach  = 4
	rarely    = 20 // number of writes for each write of a rare key
	maxRecord = 40 << 10
)

// crowd is a set of writers. Its facts outlive a site.
type crowd struct {
	pause sync.RWMutex // while it is locked, writers begin nothing

	mu      sync.Mutex
	facts   facts
	reports int           // number of writes that were reported as durable
	more    chan struct{} // gets a value with each report
}

// facts are about each key, whose writes are numbered from 1.
type facts struct {
	sent, durable [writers * keysEach]uint64 // numbers of the latest writes
	revisions     [writers * keysEach]uint64 // of the latest durable writes
	highest       uint64                     // reported revision
}

func newCrowd() *crowd { return &crowd{more: make(chan struct{}, 1)} }

// run runs the writers until ctx ends, or the server fails.
func (c *crowd) run(ctx context.Context, s *site) {
	var running sync.WaitGroup
	for writer := range writers {
		running.Go(func() {
			for c.step(ctx, s, writer*keysEach+rareKey()) == nil {
			}
		})
	}
	running.Wait()
}

// rareKey returns the number of one of a writer's keys, mostly 0.
func rareKey() int {
	if rand.IntN(rarely) > 0 {
		return 0
	}
	return 1 + rand.IntN(keysEach-1)
}

func (c *crowd) step(ctx context.Context, s *site, key int) error {
	c.pause.RLock()
	defer c.pause.RUnlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	c.facts.sent[key]++
	number, expected := c.facts.sent[key], c.facts.revisions[key]
	c.mu.Unlock()
	ack, err := s.js.PublishMsg(ctx, record(key, number, expected))
	if err == nil {
		err = s.flushed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil { // its outcome is unknown
		c.facts.revisions[key] = 0
		return s.srv.Err()
	}
	c.facts.durable[key], c.facts.revisions[key] = number, ack.Sequence
	c.facts.highest = max(c.facts.highest, ack.Sequence)
	c.reports++
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

func keySubject(key int) string { return fmt.Sprintf("$KV.%s.record.%d", natsstore.Bucket, key) }

// record returns a write of a key as a peer writes: it expects the revision of its
// predecessor if that is known, and most records expire. Some replace all earlier ones, as markers do.
func record(key int, number, expected uint64) *nats.Msg {
	m := nats.NewMsg(keySubject(key))
	m.Data = make([]byte, 8+number*7919%maxRecord)
	binary.BigEndian.PutUint64(m.Data, number)
	if expected > 0 || number == 1 {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expected, 10))
	}
	if number%4 > 0 {
		m.Header.Set(jetstream.MsgTTLHeader, "1h")
	}
	if number%8 == 7 {
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	return m
}

// await waits for n more reports.
func (c *crowd) await(n int) {
	c.mu.Lock()
	until := c.reports + n
	c.mu.Unlock()
	for c.reported() < until {
		<-c.more
	}
}

func (c *crowd) reported() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reports
}

// known returns a copy of the facts.
func (c *crowd) known() facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts
}

// check returns which durable records a recovered site has lost, or has without that they
// were sent. Then it adjusts the facts to what exists.
func (f *facts) check(ctx context.Context, s *site) error {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return err
	}
	var wrong []error
	for key := range f.sent {
		var number, revision uint64
		m, err := stream.GetLastMsgForSubject(ctx, keySubject(key))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return err
		default:
			number, revision = binary.BigEndian.Uint64(m.Data), m.Sequence
		}
		if number < f.durable[key] || number > f.sent[key] {
			wrong = append(wrong, fmt.Errorf("key %d: found %d, %d was durable, %d sent", key, number, f.durable[key], f.sent[key]))
		}
		f.durable[key], f.sent[key], f.revisions[key] = number, number, revision
	}
	if last := stream.CachedInfo().State.LastSeq; last < f.highest {
		wrong = append(wrong, fmt.Errorf("the last revision is %d, %d was reported", last, f.highest))
	}
	return errors.Join(wrong...)
}
