package cosmo

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	// MaxLimit is the highest limit.
	MaxLimit = 1000

	// MaxJobID is the maximal length of a jid in bytes.
	MaxJobID = 256

	// MaxDuration is the longest duration of a slot.
	MaxDuration = 365 * 24 * time.Hour
)

// Limiter acquires and releases the slots of limits. It is simpler than a
// kvslots.Store, and promises less: no line, no fence, no renewal.
//
// Slot n of a limit is the KV key "<key>/<n>". A worker acquires it by a
// compare-and-swap on revision 0, which writes an entry with a TTL. The slot is free
// when a worker removes the entry from the stream, without leaving a marker, or when
// the TTL ends. So a limit has at most limit entries, and a worker that knows only this
// compare-and-swap can acquire a slot as soon as it was released.
//
// Safety: as long as each worker ends its job within the job's duration, at most limit
// jobs run at once. NATS measures the duration, and ends it no earlier than the
// duration after Acquire began, unless the stream's leader changes between servers
// whose clocks differ. A Ruby worker weakens this, since its release frees the slot
// whichever job holds it: a Ruby client that is disconnected sends the release when it
// is connected again, and after an outage longer than the duration it may free the slot
// of the next job.
//
// Not promised: that a slot is free the moment its duration ends (NATS takes up to a
// second, and some seconds more after the death of a leader), and any order among
// waiting workers.
//
// A Limiter has no state but its connection. Its methods are safe for concurrent use,
// and it needs no Close.
type Limiter struct {
	js     jetstream.JetStream
	stream string
	prefix string // of the subjects
}

// Config configures a Limiter. The zero Config is valid.
type Config struct {
	// Bucket is the KV bucket; "" means DefaultBucket. All workers that share a
	// limit must use the same bucket. Cosmo has renamed its bucket once.
	Bucket string

	// Replicas is the number of replicas if New creates the bucket, 1 … 5; 0 means
	// 1, as in Cosmo.
	Replicas int
}

// Slot is an acquired slot. A process may pass it to another one, which can release it.
type Slot struct {
	Key      string // "<key>/<number>"; Cosmo calls it the slot key
	Number   int    // 0 … limit−1
	Revision uint64 // of the slot's entry; unique to this acquisition within one bucket

	// ID is unique to this acquisition, even if the bucket is deleted and created
	// again.
	ID string
}

// New returns a Limiter on the bucket of cfg. If the bucket does not exist, New creates
// it as Cosmo does. New does not change an existing bucket. The caller keeps the
// connection, and must not close it before the last use of the Limiter.
//
// The errors, of package kvslots, are ErrWrongBucket if no slot could be acquired or
// released in the bucket, or an entry could be lost before the end of its duration;
// ErrUnavailable; a *RangeError for cfg; and the cause of ctx.
func New(ctx context.Context, nc *nats.Conn, cfg Config) (*Limiter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
	}
	if err := openBucket(ctx, js, cfg); err != nil {
		return nil, err
	}
	return &Limiter{js: js, stream: "KV_" + cfg.Bucket, prefix: "$KV." + cfg.Bucket + "."}, nil
}

// Acquire takes the first free slot of the slots 0 … limit−1 of key, for at most
// duration. It does not wait for a free slot. It writes jid into the slot's entry for
// people to read; jid need not be unique.
//
// key is up to MaxKey bytes of UTF-8 without white space and DEL. It may have dots between parts
// that are not empty, and not exactly * or >. limit is 1 … MaxLimit, jid is 1 … MaxJobID
// bytes of UTF-8, and duration is 1 second … MaxDuration, rounded up to whole seconds.
//
// For a job class of Cosmo, key is the class's name in lower case, with - for :: and _
// between words, followed by / and what the class's own key function returns, if it has
// one: "api-v1_job/42" for Api::V1Job.
//
// The errors are kvslots.ErrNoSlot if all slots are taken, ErrUnavailable, a
// *RangeError, and the cause of ctx. After an error the caller holds no slot. If NATS
// did not answer, one slot may stay taken until duration is over. If ctx ends during
// a write, Acquire still waits up to 2 seconds for the outcome of the write.
func (l *Limiter) Acquire(ctx context.Context, key, jid string, limit int, duration time.Duration) (Slot, error) {
	if err := checkArguments(key, jid, limit, duration); err != nil {
		return Slot{}, err
	}
	var taken []Slot
	for n := range limit {
		slot, err := l.claim(ctx, Slot{Key: slotKey(key, n), Number: n}, jid, duration)
		if err == nil {
			return slot, nil
		}
		if !errors.Is(err, errConflict) {
			return Slot{}, err
		}
		taken = append(taken, slot)
	}
	return l.acquireMarked(ctx, taken, jid, duration)
}

// Release frees a slot before its duration ends. It returns false if this acquisition
// of the slot has already ended or been released. Release never frees a later
// acquisition of the slot by another worker, not even in a bucket that was created again,
// unless that happens during the call. (Cosmo's own release does: a Ruby worker
// that runs beyond its duration frees the slot of the next holder.) Release works even
// if ctx has ended: see kvslots.ReturnTimeout.
//
// A Slot without ID is released if its Revision is that of the slot's entry.
//
// The errors are kvslots.ErrUnavailable and a *RangeError. After ErrUnavailable it is
// unknown whether the slot was released. The caller may repeat the call, or let the
// slot's duration end.
func (l *Limiter) Release(ctx context.Context, slot Slot) (bool, error) {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if _, err := parseSlotKey(slot.Key); err != nil {
		return false, err
	}
	if slot.Revision == 0 {
		return false, &kvslots.RangeError{Field: "revision", Range: "the one that Acquire returned"}
	}
	return l.remove(ctx, slot)
}

func checkArguments(key, jid string, limit int, duration time.Duration) error {
	switch {
	case jid == "" || len(jid) > MaxJobID || !utf8.ValidString(jid):
		return &kvslots.RangeError{Field: "jid", Range: fmt.Sprintf("UTF-8 of 1 to %d bytes", MaxJobID)}
	case limit < 1 || limit > MaxLimit:
		return &kvslots.RangeError{Field: "limit", Range: fmt.Sprintf("between 1 and %d", MaxLimit)}
	case duration < time.Second || duration > MaxDuration:
		return &kvslots.RangeError{Field: "duration", Range: "between a second and a year"}
	}
	return checkKey(key)
}
