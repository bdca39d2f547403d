package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// sealed returns lines with the trailer that belongs to them.
func sealed(lines string) []byte {
	sum := sha256.Sum256([]byte(lines))
	return fmt.Appendf([]byte(lines), "{\"entries\":%d,\"sha256\":\"%s\"}\n", strings.Count(lines, "\n")-1, hex.EncodeToString(sum[:]))
}

// honest is a backup that Read accepts: a pool, a lease with a fence, a claim, and a session.
func honest() *Backup {
	renewed, claimed := slot("x", time.Hour), slot("y", time.Hour)
	renewed.Fence, claimed.After = uint64(start.UnixMicro()), 1
	b := hold(map[int]entry.SlotValue{0: renewed, 1: claimed}, entry.ConfigValue{Count: 3, Generation: 7},
		entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(time.Minute)})
	b.Replicas, b.Revision = 1, uint64(start.UnixMicro())
	return b
}

func TestReadRefusesWhatCannotBe(t *testing.T) {
	text := func(change func(lines string) string) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			t.Helper()
			var file bytes.Buffer
			if err := Write(&file, honest()); err != nil {
				t.Fatal(err)
			}
			lines := file.String()
			lines = lines[:strings.LastIndex(strings.TrimSuffix(lines, "\n"), "\n")+1]
			return sealed(change(lines))
		}
	}
	with := func(change func(b *Backup)) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			t.Helper()
			b := honest()
			change(b)
			var file bytes.Buffer
			if err := Write(&file, b); err != nil {
				t.Fatal(err)
			}
			return file.Bytes()
		}
	}
	value := func(n int, v any) func(*testing.T) []byte {
		return with(func(b *Backup) { b.Entries[n].Value, _ = json.Marshal(v) })
	}
	fenced := slot("x", time.Hour)
	fenced.Fence = uint64(start.AddDate(2, 0, 0).UnixMicro())
	after := slot("x", time.Hour)
	after.After = fenced.Fence
	for _, c := range []struct {
		name string
		file func(t *testing.T) []byte
		want string // "" if the file is accepted
	}{
		{"honest", with(func(*Backup) {}), ""},
		{"a clock that was ahead", with(func(b *Backup) { b.Revision = uint64(start.AddDate(0, 11, 0).UnixMicro()) }), ""},
		{"revision beyond nats-server's", with(func(b *Backup) { b.Revision = 9223372036854775803 }), "line 1: revision must be between 1 and"},
		{"revision beyond 2^63", with(func(b *Backup) { b.Revision = 1 << 63 }), "line 1: revision must be"},
		{"revision of a later year", with(func(b *Backup) { b.Revision = uint64(start.AddDate(1, 1, 0).UnixMicro()) }), "line 1: revision must be"},
		{"revision 0", with(func(b *Backup) { b.Revision = 0 }), "line 1: revision must be"},
		{"version below 1", with(func(b *Backup) { b.Version = -1 }), "first line is not that of a backup"},
		{"no replicas", with(func(b *Backup) { b.Replicas = 0 }), "replicas must be between 1 and 5"},
		{"too many replicas", with(func(b *Backup) { b.Replicas = 6 }), "replicas must be between 1 and 5"},
		{"time before 1970", with(func(b *Backup) { b.Time = time.Unix(-1, 0).UTC() }), "line 1: time must be"},
		{"a key twice", with(func(b *Backup) {
			again := b.Entries[0]
			again.Revision = 50
			b.Entries = append(b.Entries, again)
		}), "line 6: a second entry of a key"},
		{"a revision twice", with(func(b *Backup) { b.Entries[1].Revision = b.Entries[0].Revision }), "line 3: revision must be above"},
		{"revision 0 of an entry", with(func(b *Backup) { b.Entries[0].Revision = 0 }), "line 2: revision must be above"},
		{"an entry after the backup", with(func(b *Backup) { b.Entries[3].Revision = b.Revision + 1 }), "line 5: revision must be above"},
		{"an entry from the future", with(func(b *Backup) { b.Entries[0].Time = start.Add(time.Second) }), "line 2: time must be"},
		{"an entry before 1970", with(func(b *Backup) { b.Entries[0].Time = time.Time{} }), "line 2: time must be"},
		{"a fence of a later year", value(2, fenced), "line 4: fence must be at most"},
		{"a claim after such a fence", value(3, after), "line 5: fence must be at most"},
		{"a fence beyond JSON's numbers", with(func(b *Backup) {
			b.Entries[2].Value = json.RawMessage(strings.Replace(string(b.Entries[2].Value), `"fence":`, `"fence":1`, 1))
		}), "line 4: "},
		{"a presence", value(1, entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Minute)}), "line 3: no pool"},
		{"a deleted pool", value(0, entry.ConfigValue{Generation: 7, Deleted: true}), "line 2: no pool"},
		{"a barrier", with(func(b *Backup) { b.Entries[0].Key = entry.Key{Kind: entry.Barrier, Session: session(1)}.String() }), "line 2: no pool"},
		{"a foreign key", with(func(b *Backup) { b.Entries[0].Key = "p.x" }), "line 2: no pool"},
		{"a name twice", text(func(s string) string { return strings.Replace(s, `"replicas":1`, `"replicas":9,"replicas":1`, 1) }), "lines that no backup has"},
		{"a name in other letters", text(func(s string) string { return strings.Replace(s, `"key":`, `"KEY":`, 1) }), "lines that no backup has"},
		{"an unknown name", text(func(s string) string { return strings.Replace(s, `"key":`, `"more":1,"key":`, 1) }), "lines that no backup has"},
		{"two headers", text(func(s string) string { return s[:strings.Index(s, "\n")+1] + s }), "line 2: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(c.file(t)))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrCorruptBackup) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// FuzzPlan checks that every entry that a restore of an accepted backup writes can be read,
// with a fence that a bucket can have.
func FuzzPlan(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, micros int64, revision uint64, replicas int, key string, at int64, value []byte, later int64) {
		b, err := Read(bytes.NewReader(fuzzed(micros, revision, replicas, key, at, value)))
		if err != nil {
			return
		}
		now := b.Time.Add(time.Duration(max(0, later)))
		p := newPlan(b, now)
		for _, l := range p.leases {
			if m, live := l.message(0); live {
				p.untimed = append(p.untimed, m)
			}
		}
		for _, m := range p.untimed {
			e := entry.Parse(m.Key.String(), b.Revision+1, now, func(string) string { return "" }, m.Data)
			if e.Corrupt != nil || e.Fence() > highest(now) || e.Fence() >= entry.MaxFence {
				t.Errorf("restores %s %s with fence %d: %v", m.Key, m.Data, e.Fence(), e.Corrupt)
			}
		}
	})
}

// addSeeds adds the values of an honest backup, and of poisoned ones.
func addSeeds(f *testing.F) {
	f.Helper()
	for _, e := range honest().Entries {
		for _, revision := range []uint64{0, 1, uint64(start.UnixMicro()), 1 << 53, 1 << 62, 9223372036854775803, 1<<64 - 1} {
			f.Add(start.UnixMicro(), revision, 1, e.Key, start.UnixMicro(), []byte(e.Value), int64(0))
		}
	}
	f.Add(start.UnixMicro(), uint64(start.UnixMicro()), 1, rules.SlotKey(pool, 2).String(), int64(-1),
		[]byte(strings.Replace(string(honest().Entries[3].Value), `"after":1`, `"after":9007199254740990`, 1)), int64(0))
}

// fuzzed returns a backup of a registered pool and another entry.
func fuzzed(micros int64, revision uint64, replicas int, key string, at int64, value []byte) []byte {
	b := honest()
	b.Header = Header{version, time.UnixMicro(micros).UTC(), revision, replicas}
	b.Entries = append(b.Entries[:1], Entry{key, 2, time.UnixMicro(at).UTC(), value})
	var file bytes.Buffer
	_ = Write(&file, b) // what cannot be encoded is cut off
	return file.Bytes()
}
