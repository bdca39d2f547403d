// Package cosmo caps how many jobs with the same key run at once, in the way of
// Cosmo's Cosmo::Job::Limit, and together with its Ruby workers: both count in the
// same NATS bucket. It needs JetStream, and no gateway.
package cosmo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

// What Acquire takes.
const (
	// MaxLimit is the highest limit.
	MaxLimit = 1000

	// MaxKey is the longest key, in bytes.
	MaxKey = 200

	// MaxJobID is the longest jid, in bytes.
	MaxJobID = 256

	// MaxDuration is the longest time for which a slot is taken.
	MaxDuration = 365 * 24 * time.Hour
)

// Limiter takes and releases the slots of limits. It is simpler than a
// kvslots.Store, and promises less: no line, no fence, no renewal.
//
// Slot n of a limit is the KV key "<key>/<n>". It is taken by writing it where
// nothing is (a compare-and-swap on revision 0) with a TTL, and freed by
// removing it from the stream without a trace, or by its TTL. So at most limit
// entries are ever there, and a worker that does nothing but such writes takes a
// slot the moment it was released.
//
// What is promised: as long as every worker ends its job within its duration,
// no more than limit of them run at once. The duration is timed by NATS, which
// ends it no earlier than the duration after Acquire began, short of a change of
// the stream's leader between servers whose clocks differ. What is not: that a
// slot is free the moment its duration ends (NATS takes up to a second, and some
// seconds more after a leader's death); and order, who asks next may be first.
//
// A Limiter has no state but its connection; its methods may be called from
// several goroutines at once, and nothing needs to be closed.
type Limiter struct {
	js     jetstream.JetStream
	stream string
	prefix string // of the subjects
}

// Config says where a Limiter counts. The zero Config is ready
// for use.
type Config struct {
	// Bucket is the KV bucket; "" means DefaultBucket. Everybody who shares a
	// limit must use the same. Cosmo itself changed its name once.
	Bucket string

	// Replicas of the bucket when New has to create it, 1 … 5; 0 means
	// 1, which is what Cosmo takes.
	Replicas int
}

// Slot is a slot that was taken. It may be handed to another process,
// which can release it.
type Slot struct {
	Key      string // "<key>/<number>", what Cosmo calls the slot key
	Number   int    // 0 … limit−1
	Revision uint64 // tells this taking of the slot from earlier and later ones
}

// New finds the bucket, or creates it as Cosmo does. An existing bucket
// is used as it is. The connection stays the caller's; it must outlive the
// Limiter.
//
// The errors, of package kvslots, are ErrWrongBucket when the bucket could not work
// at all, ErrUnavailable, a *RangeError for the Config, and what ctx ends with.
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

// Acquire takes the first of the slots 0 … limit−1 of key that it finds free,
// for at most duration. It does not wait. jid stands in the bucket for people
// to read; it needs not be unique.
//
// key has the characters of KV keys (letters, digits and - / _ = .) and at most
// MaxKey of them; limit is 1 … MaxLimit; jid is UTF-8 of 1 … MaxJobID
// bytes; duration is a second … MaxDuration, and rounded up to whole
// seconds, which is what NATS can time.
//
// The errors are kvslots.ErrNoSlot when all slots are taken, ErrUnavailable, a
// *RangeError, and what ctx ends with. After an error nothing is held on the
// caller's behalf; if NATS did not answer, one slot may stay taken by nobody
// until duration is over. A write that is under way is waited for, ctx or not,
// since it could not be recalled: for 2 seconds at most.
func (l *Limiter) Acquire(ctx context.Context, key, jid string, limit int, duration time.Duration) (Slot, error) {
	if err := checkArguments(key, jid, limit, duration); err != nil {
		return Slot{}, err
	}
	var taken []Slot
	for n := range limit {
		slot := Slot{Key: key + "/" + strconv.Itoa(n), Number: n}
		revision, err := l.claim(ctx, slot.Key, jid, duration)
		slot.Revision = revision
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

// Release frees a slot before its time. It returns false when the slot was not
// held any more: its duration was over, or it was released already. A slot that
// somebody else has taken since is left alone. (Cosmo's own release is not so
// careful: a Ruby worker that runs beyond its duration frees whoever follows.)
// The slot is released even when ctx has ended: see kvslots.ReturnTimeout.
//
// The errors are kvslots.ErrUnavailable and a *RangeError. After ErrUnavailable the slot
// may or may not have been released; the call may be repeated, or left to the
// slot's duration.
func (l *Limiter) Release(ctx context.Context, slot Slot) (bool, error) {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if err := checkSlotKey(slot.Key); err != nil {
		return false, err
	}
	if slot.Revision == 0 {
		return false, &kvslots.RangeError{Field: "revision", Range: "the one that Acquire returned"}
	}
	return l.remove(ctx, slot.Key, slot.Revision)
}

// Holder says who holds a slot: the Slot that would release it, and the
// jid. It is meant for people and for tools; what it says may be over already.
//
// The errors are kvslots.ErrNotHeld when nobody does, ErrUnavailable, a *RangeError, and
// what ctx ends with.
func (l *Limiter) Holder(ctx context.Context, slotKey string) (Slot, string, error) {
	if err := checkSlotKey(slotKey); err != nil {
		return Slot{}, "", err
	}
	there, err := l.read(ctx, readRequest{LastBySubject: l.prefix + slotKey})
	switch {
	case err != nil && ctx.Err() != nil:
		return Slot{}, "", context.Cause(ctx)
	case errors.Is(err, kvslots.ErrNotHeld) || err == nil && isMarker(there.header):
		return Slot{}, "", kvslots.ErrNotHeld
	case err != nil:
		return Slot{}, "", fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
	}
	return Slot{slotKey, slotNumber(slotKey), there.revision}, there.jid, nil
}

// keyForm is what NATS clients let pass as a KV key: no wildcard, no space, and
// no empty token, which no subject may have.
var (
	keyForm  = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)
	slotForm = regexp.MustCompile(`^(.+)/(0|[1-9][0-9]{0,3})$`)
)

func checkArguments(key, jid string, limit int, duration time.Duration) error {
	switch {
	case len(key) > MaxKey || !keyForm.MatchString(key):
		return &kvslots.RangeError{Field: "key", Range: fmt.Sprintf("1 to %d of the characters of KV keys", MaxKey)}
	case jid == "" || len(jid) > MaxJobID || !utf8.ValidString(jid):
		return &kvslots.RangeError{Field: "jid", Range: fmt.Sprintf("UTF-8 of 1 to %d bytes", MaxJobID)}
	case limit < 1 || limit > MaxLimit:
		return &kvslots.RangeError{Field: "limit", Range: fmt.Sprintf("between 1 and %d", MaxLimit)}
	case duration < time.Second || duration > MaxDuration:
		return &kvslots.RangeError{Field: "duration", Range: "between a second and a year"}
	}
	return nil
}

func checkSlotKey(key string) error {
	match := slotForm.FindStringSubmatch(key)
	if match == nil || len(match[1]) > MaxKey || !keyForm.MatchString(match[1]) {
		return &kvslots.RangeError{Field: "slot", Range: `a slot key such as "mail/0"`}
	}
	return nil
}

// slotNumber is the number in a slot key that was checked.
func slotNumber(key string) int {
	n, _ := strconv.Atoi(slotForm.FindStringSubmatch(key)[2])
	return n
}
