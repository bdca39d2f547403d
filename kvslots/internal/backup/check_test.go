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
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
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
	b.Replicas, b.Revision, b.Store = 1, uint64(start.UnixMicro()), strings.Repeat("A", 26)
	return b
}

func TestReadRefusesWhatCannotBe(t *testing.T) {
	text := func(change func(lines string) string) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			t.Helper()
			var file bytes.Buffer
			natstest.Must(t, Write(&file, honest()))
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
			natstest.Must(t, Write(&file, b))
			return file.Bytes()
		}
	}
	value := func(n int, v any) func(*testing.T) []byte {
		return with(func(b *Backup) { b.Entries[n].Value = encodedValue(v) })
	}
	fenced := slot("x", time.Hour)
	fenced.Fence = highFence + 1
	after := slot("x", time.Hour)
	after.After = fenced.Fence
	renewed := after
	renewed.Fence = uint64(start.UnixMicro())
	full := slot("z", time.Hour)
	full.Session, full.Ticket, full.Label, full.Nonce, full.Unseen, full.Origin = session(1), 3, `<"é">`, session(2), true, session(3)
	owned := entry.ConfigValue{Count: 1, Generation: 7, Origin: session(3), Terms: entry.Terms{Name: "mine", Dialect: "forrst", Lock: true, Limit: 1}}
	semaphore := entry.ConfigValue{Count: 2, Generation: 7, Closing: true, Terms: entry.Terms{Name: "mi<n>e", Limit: 5}}
	ofName := entry.HashOf("dflockd", semaphore.Name)
	// name returns a backup of a pool with the id and the configuration, and a slot of it.
	name := func(id entry.Hash, config entry.ConfigValue, n int, generation uint64) func(*testing.T) []byte {
		s := slot("z", time.Hour)
		s.Generation = generation
		return with(func(b *Backup) {
			for i, key := range []entry.Key{rules.SlotKey(id, n), {Kind: entry.Config, Pool: id}} { // the configuration is newer
				b.Entries[i+2].Key = key.String()
				b.Entries[i+2].Value = encodedValue([]any{s, config}[i])
			}
		})
	}
	at := func(n int) func(*testing.T) []byte {
		return with(func(b *Backup) { b.Entries[3].Key = rules.SlotKey(pool, n).String() })
	}
	edit := func(n int, from, to string) func(*testing.T) []byte {
		return text(func(s string) string {
			lines := strings.SplitAfter(s, "\n")
			if !strings.Contains(lines[n-1], from) {
				panic(from + " is not in " + lines[n-1])
			}
			lines[n-1] = strings.Replace(lines[n-1], from, to, 1)
			return strings.Join(lines, "")
		})
	}
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
		{"format below 1", with(func(b *Backup) { b.Format = -1 }), "first line is not that of a backup"},
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
		{"a fence of a later century", value(2, fenced), "line 4: after and fence must be at most"},
		{"a claim after such a fence", value(3, after), "line 5: after and fence must be at most"},
		{"a renewed claim after such a fence", value(3, renewed), "line 5: after and fence must be at most"},
		{"a fence beyond JSON's numbers", with(func(b *Backup) {
			b.Entries[2].Value = json.RawMessage(strings.Replace(string(b.Entries[2].Value), `"fence":`, `"fence":1`, 1))
		}), "line 4: "},
		{"a slot with all fields", value(3, full), ""},
		{"a field twice in a value", edit(2, `"count":3`, `"count":3,"count":4`), `line 2 must be {"key":"`},
		{"a ttl twice", edit(4, `"ttl_ms":`, `"ttl_ms":1,"ttl_ms":`), `line 4 must be {"key":"`},
		{"a field of a value in other letters", edit(2, `"count":3`, `"count":3,"COUNT":900`), `line 2 must be {"key":"`},
		{"an unknown field", edit(2, `"gen":7`, `"gen":7,"more":1`), `line 2 must be {"key":"`},
		{"an unknown field of a slot", edit(4, `"gen":7`, `"more":{"x":[]},"gen":7`), `line 4 must be {"key":"`},
		{"an unknown field of a session", edit(3, `"kind":`, `"more":"},","kind":`), `line 3 must be {"key":"`},
		{"fields of a slot in a pool", edit(2, `"gen":7`, `"gen":7,"ttl_ms":1000,"fence":3`), `line 2 must be {"key":"`},
		{"a field that is null", edit(2, `"count":3`, `"count":null`), `line 2 must be {"key":"`},
		{"a field that is absent", edit(2, `"count":3,`, ``), `line 2 must be {"key":"`},
		{"a field that could be absent", edit(2, `"gen":7`, `"gen":7,"closing":false`), `line 2 must be {"key":"`},
		{"a field with escapes", edit(2, `"count"`, `"\u0063ount"`), `line 2 must be {"key":"`},
		{"fields in another order", edit(2, `"count":3,"gen":7`, `"gen":7,"count":3`), `line 2 must be {"key":"`},
		{"a count that is too high", edit(2, `"count":3`, `"count":1001`), "line 2: corrupt value: count must be between 0 and 1000"},
		{"a title that hides", edit(2, `"gen":7`, `"gen":7,"title":"a\u202eb"`), "line 2: title, label and reason must have at most 64 printable characters"},
		{"a reason that hides", edit(2, `"gen":7`, `"gen":7,"out":[{"n":0,"reason":"a\u200bb"}]`), "line 2: title, label and reason must"},
		{"a position of a lock that cannot be out", edit(2, `"count":3,"gen":7`, `"count":1,"gen":7,"out":[{"n":1}],"name":"x","lock":true,"limit":1`), "line 2: "},
		{"an origin of nothing", edit(2, `"gen":7`, `"gen":7,"out_origin":"6c6f6f00000000000000000000000000"`), "line 2: out_origin must be absent without out"},
		{"no generation", edit(4, `"gen":7,`, ``), "line 4: corrupt value: gen must not be 0"},
		{"a ttl that is too long", edit(4, `"ttl_ms":`, `"ttl_ms":99999`), "line 4: corrupt value: a time in ms must be between 1 and 31622400000"},
		{"an unknown kind of session", edit(3, `"client"`, `"x"`), `line 3: corrupt value: kind must be "peer" or "client"`},
		{"the highest position of a pool", at(999), ""},
		{"a position that no pool has", at(1000), "line 5: the position in key must be between 0 and 999"},
		{"a name", name(ofName, semaphore, 4, 7), ""},
		{"the name of an owned lock", name(entry.HashOf("forrst", "mine"), owned, 0, 7), ""},
		{"a name of another key", name(entry.HashOf("dflockd", "yours"), semaphore, 0, 7), `line 5: name must be that of key: the key of "mi<n>e" is p.` + ofName.String() + ".cfg"},
		{"a name of another dialect", name(entry.HashOf("dflockd", "mine"), owned, 0, 7), "line 5: name must be that of key"},
		{"a dialect that is a domain", name(entry.HashOf("library", "mine"), func() entry.ConfigValue { c := owned; c.Dialect = "library"; return c }(), 0, 7),
			`line 5: dialect must be absent or "forrst"`},
		{"a position above a name's limit", name(ofName, semaphore, 5, 7), "line 4: the position in key must be between 0 and 4"},
		{"a position of a name that had another limit", name(ofName, semaphore, 65534, 8), ""},
		{"a position that no name has", name(ofName, semaphore, 65535, 8), "line 4: the position in key must be between 0 and 65534"},
		{"a lease in two slots", with(func(b *Backup) { b.Entries[3].Value = b.Entries[2].Value }), ""},
		{"a presence", value(1, entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Minute)}), "line 3: no pool"},
		{"a barrier", with(func(b *Backup) { b.Entries[0].Key = entry.Key{Kind: entry.Barrier, Session: session(1)}.String() }), "line 2: no pool"},
		{"a foreign key", with(func(b *Backup) { b.Entries[0].Key = "p.x" }), "line 2: no pool"},
		{"a name twice", text(func(s string) string { return strings.Replace(s, `"replicas":1`, `"replicas":9,"replicas":1`, 1) }), `line 1 must be {"kvslots_backup":1`},
		{"a name in other letters", text(func(s string) string { return strings.Replace(s, `"key":`, `"KEY":`, 1) }), `line 2 must be {"key":"`},
		{"an unknown name", text(func(s string) string { return strings.Replace(s, `"key":`, `"more":1,"key":`, 1) }), `line 2 must be {"key":"`},
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
			if e.Corrupt != nil || e.Fence() >= entry.MaxFence {
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
	b.Header = Header{entry.Format, time.UnixMicro(micros).UTC(), revision, replicas, honest().Store}
	b.Entries = append(b.Entries[:1], Entry{key, 2, time.UnixMicro(at).UTC(), value})
	var file bytes.Buffer
	_ = Write(&file, b) // what cannot be encoded is cut off
	return file.Bytes()
}

// encodedValue returns a value as peers write it.
func encodedValue(v any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}
