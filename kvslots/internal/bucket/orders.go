package bucket

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	// minSetup is the timeout of the first attempts to create a reading. It is short because
	// a request is lost while there is no leader, and the peer serves no caller until it has
	// read. After every patientSetups attempts without an answer it is doubled, up to
	// maxSetup, for servers that are slow.
	minSetup      = 500 * time.Millisecond
	maxSetup      = 8 * time.Second
	patientSetups = 4
	infoShare     = 4 // the part of it that the stream's info may take

	// minSpread bounds the random pause before a reading that catches up, doubled after
	// each failure up to maxSpread: when a leader steps down, all peers catch up at once.
	minSpread = 8 * time.Millisecond
	maxSpread = 50 * time.Millisecond
)

// order is a reading that the peer has ordered. ctx ends when the reading is over: it has
// joined the feed, or is lost, or a later order replaces it.
type order struct {
	peer.Reading
	ctx    context.Context
	cancel context.CancelFunc
	lost   bool // the peer was told so; the Bucket's lock guards it
}

func (b *Bucket) orderReading(w peer.Reading) {
	if b.order != nil {
		b.order.cancel()
	}
	ctx, cancel := context.WithCancel(b.open)
	b.order = &order{Reading: w, ctx: ctx, cancel: cancel}
	b.readings++
	b.progress.joined = false
	if w.From == 0 {
		b.progress.known = 0
	}
	select {
	case <-b.orders: // keepReadings has not received it
	default:
	}
	b.orders <- b.order
}

// join ends a reading whose entries have joined those of the feed.
func (b *Bucket) join(number uint64) {
	if b.order != nil && b.order.Number == number {
		b.progress.joined = true
		b.order.cancel()
	}
}

// interrupt tells the peer that the latest reading is lost, or that the feed which it has
// joined was interrupted.
func (b *Bucket) interrupt(now peer.Instant) {
	if o := b.order; o != nil && !o.lost {
		o.lost = true
		o.cancel()
		b.peer.ReadingLost(o.Number, now)
	}
}

func (b *Bucket) keepReadings() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for failed, unanswered := 0, 0; ; {
		select {
		case <-b.open.Done():
			return
		case <-look.C:
			b.lookAtCopies()
		case o := <-b.orders:
			switch err := b.serve(o, failed, unanswered); {
			case err == nil:
				failed, unanswered = 0, 0
			case errors.Is(err, context.DeadlineExceeded):
				unanswered++
				fallthrough
			default:
				failed++
			}
		}
	}
}

// serve creates a reading, and runs it until it is over. It returns an error if the reading
// could not be created. So many attempts before have failed, and so many of them had no answer.
func (b *Bucket) serve(o *order, failed, unanswered int) error {
	if failed > 0 || o.From > 0 {
		clock.Sleep(o.ctx, rand.N(doubled(minSpread, failed, maxSpread)))
	}
	for !b.nc.IsConnected() {
		select {
		case <-o.ctx.Done():
			return nil
		case <-b.online:
		}
	}
	r, err := b.createReading(o, doubled(minSetup, unanswered/patientSetups, maxSetup))
	if err != nil {
		if o.ctx.Err() == nil {
			level := slog.LevelDebug
			if failed == 0 {
				level = slog.LevelWarn
			}
			b.log.Log(o.ctx, level, "reading of the bucket not begun; trying again", "error", err)
			b.readingFailed(o, err)
		}
		return err
	}
	r.run()
	return nil
}

func doubled(d time.Duration, times int, most time.Duration) time.Duration {
	return min(most, d<<min(times, 8))
}

// readingFailed tells the peer that a reading could not be created. The reason in an answer stays
// the reason while nothing answers for a moment.
func (b *Bucket) readingFailed(o *order, why error) {
	b.input(o.ctx, func(_ *peer.Peer, now peer.Instant) {
		answered := !isUnanswered(why)
		switch {
		case answered:
			b.failing = 0
		case b.failing == 0:
			b.failing = now
		}
		if answered || b.readErr == nil || now.Sub(b.failing) >= readyTimeout {
			b.readErr = explain(why)
		}
		b.interrupt(now)
	})
}
