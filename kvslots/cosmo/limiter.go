// Package cosmo limits how many jobs with the same key run at once. It is compatible
// with Cosmo::Job::Limit of the Ruby framework Cosmo: Go and Ruby workers share limits
// in the same NATS KV bucket. It needs JetStream, and no gateway.
package cosmo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	// MaxKey is the maximal length of a key in bytes. With a longer one, the line that
	// publishes an entry could exceed 4,096 bytes, at which nats-server closes a connection.
	MaxKey = 3000

	// MaxLimit is the highest limit.
	MaxLimit = 1000

	// MaxJobID is the maximal length of a jid in bytes.
	MaxJobID = 256

	// MaxDuration is the longest duration of a slot.
	MaxDuration = 365 * 24 * time.Hour

	answerTimeout = 5 * time.Second
)

// slotForm matches the slot keys that are keys of NATS KV.
var slotForm = regexp.MustCompile(`^([-/_=a-zA-Z0-9]+\.)*[-/_=a-zA-Z0-9]*/(0|[1-9][0-9]{0,2})$`)

// Limiter acquires and releases the slots of limits. It promises less than a
// kvslots.Store: no line, no fence, no renewal.
//
// Slot n of a limit is the KV key "<key>/<n>". A worker that creates the key, with a TTL,
// has acquired the slot. The slot is free when a worker erases the key, or when the TTL
// ends. As long as each worker ends its job within the job's duration, at most limit jobs
// run at once. NATS may free a slot a second, or after the death of a leader some seconds,
// after its duration. The release of a Ruby worker frees the slot whichever job holds it.
//
// The methods of a Limiter are safe for concurrent use. It needs no Close.
type Limiter struct {
	stream jetstream.Stream
	kv     jetstream.KeyValue
}

// Slot is an acquired slot. A process may pass it to another one, which can release it.
type Slot struct {
	Key      string // "<key>/<number>"; Cosmo calls it the slot key
	Number   int    // 0 … limit−1
	Revision uint64 // of the KV key; unique to this acquisition within one bucket
}

// Held is a slot that a job holds.
type Held struct {
	Slot
	JobID    string
	Acquired time.Time // on the clock of NATS
}

// Acquire takes the first free slot of the slots 0 … limit−1 of key, for at most
// duration. It does not wait for a free slot. It writes jid into the slot's entry for
// people to read; jid need not be unique.
//
// key is up to MaxKey letters, digits and - / _ = . (no empty part before a dot). limit is 1 …
// MaxLimit, jid is 1 … MaxJobID bytes of UTF-8, and duration is 1 second … MaxDuration,
// rounded up to whole seconds.
//
// The errors are kvslots.ErrNoSlot if all slots are taken, ErrUnavailable, a
// *RangeError, and the cause of ctx. After an error the caller holds no slot; if NATS
// did not answer, one slot may stay taken until duration is over.
func (l *Limiter) Acquire(ctx context.Context, key, jid string, limit int, duration time.Duration) (Slot, error) {
	if err := checkArguments(key, jid, limit, duration); err != nil {
		return Slot{}, err
	}
	for n := range limit {
		slot := Slot{Key: slotKey(key, n), Number: n}
		var err error
		if slot.Revision, err = l.create(ctx, slot.Key, jid, duration); err == nil {
			return slot, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return Slot{}, unavailable(ctx, err)
		}
	}
	return Slot{}, kvslots.ErrNoSlot
}

// create ignores an answer that comes after duration: the slot is free again.
func (l *Limiter) create(ctx context.Context, slotKey, jid string, duration time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, min(duration, answerTimeout))
	defer cancel()
	ttl := (duration + time.Second - 1).Truncate(time.Second)
	return l.kv.Create(ctx, slotKey, []byte(jid), jetstream.KeyTTL(ttl))
}

// Release frees a slot before its duration ends. It does nothing if this acquisition of the
// slot has ended, and never frees a later one in the same bucket. Release works even if ctx
// has ended: see kvslots.ReturnTimeout.
//
// The errors are kvslots.ErrUnavailable and a *RangeError. After ErrUnavailable the slot
// is free when its duration ends, if not before.
func (l *Limiter) Release(ctx context.Context, slot Slot) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if err := checkSlotKey(slot.Key); err != nil {
		return err
	}
	// Purge of the KV client would leave a marker, over which a Ruby worker cannot create the key.
	subject := "$KV." + l.kv.Bucket() + "." + slot.Key
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(slot.Revision+1)); err != nil {
		return fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
	}
	return nil
}

// Holder returns the current acquisition of a slot, which can be released, and its job.
//
// The errors are kvslots.ErrNotHeld if the slot is free, ErrUnavailable, a *RangeError,
// and the cause of ctx.
func (l *Limiter) Holder(ctx context.Context, slotKey string) (Held, error) {
	if err := checkSlotKey(slotKey); err != nil {
		return Held{}, err
	}
	entry, err := l.kv.Get(ctx, slotKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Held{}, kvslots.ErrNotHeld
	}
	if err != nil {
		return Held{}, unavailable(ctx, err)
	}
	return heldBy(entry), nil
}

// Held returns the slots in the bucket that are held, in the order of their acquisition.
// The errors are kvslots.ErrUnavailable and the cause of ctx.
func (l *Limiter) Held(ctx context.Context) ([]Held, error) {
	watcher, err := l.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	defer watcher.Stop()
	var all []Held
	for entry := range watcher.Updates() {
		if entry == nil { // all have come
			return all, nil
		}
		if slotForm.MatchString(entry.Key()) {
			all = append(all, heldBy(entry))
		}
	}
	return nil, unavailable(ctx, errors.New("the list of keys was cut off"))
}

func heldBy(entry jetstream.KeyValueEntry) Held {
	number, _ := strconv.Atoi(slotForm.FindStringSubmatch(entry.Key())[2])
	return Held{Slot{entry.Key(), number, entry.Revision()}, string(entry.Value()), entry.Created()}
}

func slotKey(key string, number int) string { return key + "/" + strconv.Itoa(number) }

func checkSlotKey(key string) error {
	if len(key) > MaxKey+4 || !slotForm.MatchString(key) {
		return &kvslots.RangeError{Field: "slot", Range: `a slot key such as "mail/0"`}
	}
	return nil
}

func checkArguments(key, jid string, limit int, duration time.Duration) error {
	switch {
	case len(key) > MaxKey || !slotForm.MatchString(slotKey(key, 0)):
		return &kvslots.RangeError{Field: "key", Range: fmt.Sprintf("up to %d letters, digits and - / _ = . without empty parts before a dot", MaxKey)}
	case jid == "" || len(jid) > MaxJobID || !utf8.ValidString(jid):
		return &kvslots.RangeError{Field: "jid", Range: fmt.Sprintf("UTF-8 of 1 to %d bytes", MaxJobID)}
	case limit < 1 || limit > MaxLimit:
		return &kvslots.RangeError{Field: "limit", Range: fmt.Sprintf("between 1 and %d", MaxLimit)}
	case duration < time.Second || duration > MaxDuration:
		return &kvslots.RangeError{Field: "duration", Range: "between a second and a year"}
	}
	return nil
}

func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
}
