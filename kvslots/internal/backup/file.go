package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

var ErrCorruptBackup = errors.New("not a complete backup")

var errCutOff = fmt.Errorf("%w: it does not end as a backup does", ErrCorruptBackup)

// Backup is the state of the bucket after one revision, without the entries that are never
// restored: tickets, presences, barriers and markers.
type Backup struct {
	Header
	Entries []Entry // in order of revision

	presences map[string]time.Time // when those of peers end; of a bucket that was read
}

// Header is the first line of the file.
type Header struct {
	Format   int       `json:"kvslots_backup"` // see entry.Format
	Time     time.Time `json:"time"`           // the stream leader's clock at Revision
	Revision uint64    `json:"revision"`       // of the last entry that the backup covers
	Replicas int       `json:"replicas"`       // of the stream
	Store    string    `json:"store"`          // the bucket's id: see bucket.IDKey
}

// Entry is an entry of the bucket, and a line of the file. The bucket stores hashes in
// place of credentials, and so does the file.
type Entry struct {
	Key      string          `json:"key"`
	Revision uint64          `json:"revision"`
	Time     time.Time       `json:"time"`
	Value    json.RawMessage `json:"value"`
}

// trailer is the last line of the file.
type trailer struct {
	Entries int    `json:"entries"`
	SHA256  string `json:"sha256"` // of all lines before
}

func (e *Entry) parse() entry.Entry {
	return entry.Parse(e.Key, e.Revision, e.Time, func(string) string { return "" }, e.Value)
}

// encoded returns the value of an entry that isKept, as a peer writes it.
func encoded(e *entry.Entry) []byte {
	var value any
	switch e.Key.Kind {
	case entry.Config:
		value = e.Config
	case entry.Slot:
		value = e.Slot
	case entry.Session:
		value = e.Session
	}
	m := entry.NewMessage(e.Key, value, 0, 0)
	return m.Data
}

// Write writes a backup as lines of JSON.
func Write(w io.Writer, b *Backup) error {
	buffered := bufio.NewWriter(w)
	hash := sha256.New()
	lines := json.NewEncoder(io.MultiWriter(buffered, hash))
	lines.SetEscapeHTML(false) // as peers write values
	if err := lines.Encode(b.Header); err != nil {
		return err
	}
	for _, e := range b.Entries {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	end := trailer{len(b.Entries), hex.EncodeToString(hash.Sum(nil))}
	if err := json.NewEncoder(buffered).Encode(end); err != nil {
		return err
	}
	return buffered.Flush()
}

// Read reads what Write has written. It returns ErrCorruptBackup unless the file is
// complete, every entry can be decoded, and a bucket can have contained all of them.
func Read(r io.Reader) (*Backup, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines) < 3 || len(lines[len(lines)-1]) > 0 {
		return nil, errCutOff
	}
	first, rest, last := lines[0], lines[1:len(lines)-2], lines[len(lines)-2]
	b := &Backup{Entries: make([]Entry, 0, len(rest))}
	if err := json.Unmarshal(first, &b.Header); err != nil || b.Format < 1 {
		return nil, fmt.Errorf("%w: its first line is not that of a backup", ErrCorruptBackup)
	}
	if b.Format > entry.Format {
		return nil, fmt.Errorf("the backup has format %d, and this kvslots reads format %d: use a later kvslots", b.Format, entry.Format)
	}
	var end trailer
	sum := sha256.Sum256(data[:len(data)-len(last)])
	switch err := json.Unmarshal(last, &end); {
	case err != nil || end.SHA256 == "":
		return nil, errCutOff
	case end.SHA256 != hex.EncodeToString(sum[:]) || end.Entries != len(rest):
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrCorruptBackup)
	}
	for i, line := range rest {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%w: line %d cannot be read", ErrCorruptBackup, i+2)
		}
		b.Entries = append(b.Entries, e)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorruptBackup, err)
	}
	return b, b.checkLines(lines)
}

// checkLines returns an error unless Write writes the same lines. Otherwise one of them has a
// field twice, in other letters or in another place, or an unknown one.
func (b *Backup) checkLines(lines [][]byte) error {
	var again bytes.Buffer
	if err := Write(&again, b); err != nil {
		return err
	}
	for i, line := range bytes.SplitAfter(again.Bytes(), []byte("\n")) {
		if !bytes.Equal(line, lines[i]) {
			return fmt.Errorf("%w: line %d must be %.300s", ErrCorruptBackup, i+1, bytes.TrimSpace(line))
		}
	}
	return nil
}
