package backup

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// maxAhead is how far a clock may have been ahead when it gave the bucket its first revision,
// which stays when the clock is corrected, so it is generous.
const maxAhead = 366 * 24 * time.Hour

// maxReplicas is JetStream's highest number of replicas.
const maxReplicas = 5

// highFence is above each fence of a clock before the year 2112, and far enough below
// entry.MaxFence for all that follow.
const highFence = entry.MaxFence / 2

// highest returns the highest revision that a bucket can have at a time. Revisions
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
	case !bucket.IsID(b.Store):
		return errors.New("line 1: store must be 26 of A-Z and 2-7")
	}
	keys, after := make(map[entry.Key]bool, len(b.Entries)), uint64(0)
	entries, pools := make([]entry.Entry, len(b.Entries)), map[entry.Hash]*entry.ConfigValue{}
	for i := range b.Entries {
		e := &entries[i]
		*e = b.Entries[i].parse()
		if err := b.checkEntry(&b.Entries[i], e, after); err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
		if keys[e.Key] {
			return fmt.Errorf("line %d: a second entry of a key", i+2)
		}
		keys[e.Key], after = true, e.Revision
		b.Entries[i].Value = encoded(e)
		if e.Key.Kind == entry.Config {
			pools[e.Key.Pool] = &e.Config
		}
	}
	for i := range entries { // a configuration may be newer than the slots of its pool
		e := &entries[i]
		if most := positions(pools[e.Key.Pool], e); e.Key.Kind == entry.Slot && e.Key.N >= most {
			return fmt.Errorf("line %d: the position in key must be between 0 and %d", i+2, most-1)
		}
	}
	return nil
}

// positions returns how many positions a slot of a pool may ever have had. The count of a
// registered pool may have been higher. The limit of a name holds for one generation.
func positions(pool *entry.ConfigValue, slot *entry.Entry) int {
	switch {
	case pool != nil && !pool.Named():
		return entry.MaxCount
	case pool != nil && pool.Generation == slot.Slot.Generation:
		return pool.Limit
	}
	return entry.MaxLimit
}

// checkEntry checks an entry that follows that of the revision after.
func (b *Backup) checkEntry(e *Entry, parsed *entry.Entry, after uint64) error {
	switch {
	case e.Revision <= after || e.Revision > b.Revision:
		return fmt.Errorf("revision must be above that of the line before, and at most %d, the revision of the backup", b.Revision)
	case e.Time.Before(time.Unix(0, 0)) || e.Time.After(b.Time):
		return errors.New("time must be between 1970 and the time of the backup")
	case parsed.Corrupt != nil && parsed.Key.Kind != entry.Foreign:
		return parsed.Corrupt
	case !isKept(parsed):
		return errors.New("no pool, slot or client's session")
	case parsed.Slot.After > highFence || parsed.Fence() > highFence:
		return fmt.Errorf("after and fence must be at most %d", highFence)
	}
	return errors.Join(checkName(parsed), checkTexts(parsed), checkOut(&parsed.Config))
}

func checkName(e *entry.Entry) error {
	terms := e.Config.Terms
	switch {
	case !terms.Named():
	case terms.Dialect != "" && terms.Dialect != entry.OfOwned:
		return fmt.Errorf("dialect must be absent or %q", entry.OfOwned)
	case terms.Pool() != e.Key.Pool:
		return fmt.Errorf("name must be that of key: the key of %.80q is %s", terms.Name, entry.Key{Kind: entry.Config, Pool: terms.Pool()})
	}
	return nil
}

// checkTexts checks that people can read the texts of an entry, which a page and a terminal show.
func checkTexts(e *entry.Entry) error {
	texts := []string{e.Config.Title, e.Slot.Label, e.Session.Label}
	for _, o := range e.Config.Out {
		texts = append(texts, o.Reason)
	}
	for _, text := range texts {
		if !entry.IsText(text) {
			return fmt.Errorf("title, label and reason must have at most %d printable characters", entry.MaxText)
		}
	}
	return nil
}

// checkOut checks that what is out of service has a position that the pool may have had.
func checkOut(pool *entry.ConfigValue) error {
	most := entry.MaxCount
	if pool.Named() {
		most = pool.Limit
	}
	switch n := len(pool.Out); {
	case n > 0 && pool.Out[n-1].Position >= most:
		return fmt.Errorf("the positions in out must be between %d and %d", entry.WholePool, most-1)
	case n == 0 && !pool.OutOrigin.IsZero():
		return errors.New("out_origin must be absent without out")
	}
	return nil
}
