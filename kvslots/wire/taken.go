package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// Taken is a kvslots.TakenError without its place: the value of TakenHeader, as JSON in ASCII.
type Taken struct {
	HeldBy  string         `json:"held_by,omitempty"`
	HeldFor reads.Duration `json:"held_s,omitzero"`
	Limit   int            `json:"limit,omitempty"` // only of a mismatch; without it a lock is in use
	Paused  bool           `json:"paused,omitempty"`
	Reason  string         `json:"pause_reason,omitempty"`
}

// NewTaken returns what an error says.
func NewTaken(e *kvslots.TakenError) Taken {
	t := Taken{HeldBy: e.HeldBy, HeldFor: reads.Duration(max(0, e.HeldFor).Round(time.Millisecond)), Paused: e.Paused, Reason: e.Reason}
	if e.Err == kvslots.ErrLimitMismatch {
		t.Limit = e.Limit
	}
	return t
}

// Header returns the value of the header, or "" if there is nothing to say.
func (t Taken) Header() string {
	if t == (Taken{}) {
		return ""
	}
	text, _ := Encode(t) // does not fail for texts and numbers
	var ascii strings.Builder
	for _, unit := range utf16.Encode([]rune(string(text))) {
		if unit > '~' {
			fmt.Fprintf(&ascii, `\u%04x`, unit)
		} else {
			ascii.WriteByte(byte(unit))
		}
	}
	return ascii.String()
}

// Explained returns the *kvslots.TakenError of kvslots.ErrNoSlot or kvslots.ErrLimitMismatch, if an answer has
// PlaceHeader or TakenHeader, and otherwise the error. Other programs' values say nothing.
func Explained(err error, header interface{ Get(name string) string }) error {
	if err != kvslots.ErrNoSlot && err != kvslots.ErrLimitMismatch {
		return err
	}
	place, _ := strconv.ParseUint(header.Get(PlaceHeader), 10, 31)
	var t Taken
	if json.Unmarshal([]byte(header.Get(TakenHeader)), &t) != nil && place == 0 {
		return err
	}
	return &kvslots.TakenError{
		Err: err, Place: int(place), HeldBy: t.HeldBy, HeldFor: time.Duration(t.HeldFor), Limit: t.Limit, Paused: t.Paused, Reason: t.Reason,
	}
}
