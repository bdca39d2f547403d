package backup

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

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

// checkEncoding checks that the value of an entry is written as a peer writes it. Otherwise it
// has a field twice, in other letters or in another place, or an unknown one.
func checkEncoding(e *entry.Entry, value []byte) error {
	want := encoded(e)
	if bytes.Equal(value, want) {
		return nil
	}
	differs := 0
	for differs < min(len(value), len(want)) && value[differs] == want[differs] {
		differs++
	}
	return fmt.Errorf("value has %.80s where %.80s is expected", fieldAt(value, differs), fieldAt(want, differs))
}

// fieldAt returns the name and value of the field at an offset of an object of JSON.
func fieldAt(object []byte, offset int) string {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // "{"
	for d.More() {
		start := d.InputOffset()
		var value json.RawMessage
		_, _ = d.Token()
		if d.Decode(&value) != nil {
			break
		}
		if end := d.InputOffset(); int(end) > offset {
			return string(bytes.TrimLeft(object[start:end], ", "))
		}
	}
	return "its end"
}
