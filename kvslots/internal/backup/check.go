package backup

import (
	"errors"
	"fmt"
	"time"
)

// maxAhead is how far a clock may have been ahead when it gave the bucket its first revision,
// or a claim its fence. Both stay when the clock is corrected, so it is generous.
const maxAhead = 366 * 24 * time.Hour

// maxReplicas is JetStream's highest number of replicas.
const maxReplicas = 5

// highest returns the highest revision and fence that a bucket can have at a time. Revisions
// begin with the microseconds since 1970, and fewer entries than one per microsecond are
// written. A bucket that begins with a much higher one could not be started: nats-server
// uses the high bits for flags.
func highest(at time.Time) uint64 { return uint64(max(0, at.Add(maxAhead).UnixMicro())) }

// check returns an error, which names a field and its range, unless a bucket can have had
// these contents.
func (b *Backup) check() error {
	top := highest(b.Time)
	switch {
	case b.Time.Before(time.Unix(0, 0)) || b.Time.Year() > 9999:
		return errors.New("line 1: time must be between 1970 and 9999")
	case b.Revision < 1 || b.Revision > top:
		return fmt.Errorf("line 1: revision must be between 1 and %d, a year after the time of the backup in microseconds since 1970", top)
	case b.Replicas < 1 || b.Replicas > maxReplicas:
		return fmt.Errorf("line 1: replicas must be between 1 and %d", maxReplicas)
	}
	keys, after := make(map[string]bool, len(b.Entries)), uint64(0)
	for i := range b.Entries {
		if err := b.checkEntry(&b.Entries[i], after, top); err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
		if keys[b.Entries[i].Key] {
			return fmt.Errorf("line %d: a second entry of a key", i+2)
		}
		keys[b.Entries[i].Key], after = true, b.Entries[i].Revision
	}
	return nil
}

// checkEntry checks an entry that follows that of the revision after.
func (b *Backup) checkEntry(e *Entry, after, top uint64) error {
	parsed := e.parse()
	switch {
	case e.Revision <= after || e.Revision > b.Revision:
		return fmt.Errorf("revision must be above that of the line before, and at most %d, the revision of the backup", b.Revision)
	case e.Time.Before(time.Unix(0, 0)) || e.Time.After(b.Time):
		return errors.New("time must be between 1970 and the time of the backup")
	case parsed.Corrupt != nil || !isKept(&parsed):
		return errors.New("no pool, slot or client's session")
	case parsed.Fence() > top:
		return fmt.Errorf("fence must be at most %d, a year after the time of the backup in microseconds since 1970", top)
	}
	return nil
}
