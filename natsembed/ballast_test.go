package natsembed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

// ballasts is the number of clients that write entries, which the store ignores, into
// the bucket. The entries are so large that a few hundred fill a block: nats-server
// rewrites blocks with few live entries, and removes blocks without any. (A limit of
// the stream's size would make the blocks smaller, but the store does not accept one.)
const (
	ballasts     = 16
	rareBallasts = 4
	maxBallast   = 40 << 10
)

// ballastFacts are the facts of these clients. Each client numbers its writes from 1.
type ballastFacts struct {
	sent, acked [ballasts]uint64
	revisions   [ballasts]uint64 // of the latest write that was acknowledged
	highest     uint64           // reported revision
}

func ballastSubject(client int) string {
	return fmt.Sprintf("$KV.%s.ballast.%d", kvslots.Bucket, client)
}

// loadBallast writes until ctx ends, or a write fails.
func (c *crowd) loadBallast(ctx context.Context, s *site) {
	var running sync.WaitGroup
	for client := range ballasts {
		running.Go(func() {
			for client >= rareBallasts || c.pacer.turn(ctx) {
				c.mayBegin()
				if ctx.Err() != nil || c.writeBallast(ctx, s, client) != nil {
					return
				}
				c.pacer.done()
			}
		})
	}
	running.Wait()
}

func (c *crowd) writeBallast(ctx context.Context, s *site, client int) error {
	var number, expected uint64
	c.look(func(f *facts) { number, expected = f.ballast.sent[client]+1, f.ballast.revisions[client] })
	c.begin(func(f *facts) { f.ballast.sent[client] = number })
	m := nats.NewMsg(ballastSubject(client))
	m.Data = make([]byte, 8+number*7919%maxBallast)
	binary.BigEndian.PutUint64(m.Data, number)
	// Each write expects its predecessor's revision, as a peer's writes do.
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expected, 10))
	ack, err := s.js.PublishMsg(ctx, m)
	if err != nil {
		return err
	}
	if err := s.flushed(); err != nil {
		return err
	}
	c.report(func(f *facts) {
		f.ballast.acked[client], f.ballast.revisions[client] = number, ack.Sequence
		f.ballast.highest = max(f.ballast.highest, ack.Sequence)
	})
	return nil
}

// check returns which ballast a recovered server has lost or was never sent, and
// adjusts the facts to what exists.
func (f *ballastFacts) check(ctx context.Context, s *site) error {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return err
	}
	var wrong []error
	for c := range ballasts {
		var number, revision uint64
		m, err := stream.GetLastMsgForSubject(ctx, ballastSubject(c))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return err
		default:
			number, revision = binary.BigEndian.Uint64(m.Data), m.Sequence
		}
		if number < f.acked[c] || number > f.sent[c] {
			wrong = append(wrong, fmt.Errorf("ballast %d: found %d, %d was acknowledged, %d sent", c, number, f.acked[c], f.sent[c]))
		}
		f.acked[c], f.sent[c], f.revisions[c] = number, number, revision
	}
	if last := stream.CachedInfo().State.LastSeq; last < f.highest {
		wrong = append(wrong, fmt.Errorf("the last revision is %d, %d was reported", last, f.highest))
	}
	return errors.Join(wrong...)
}
