package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/kvslots/kvslots/kvslots"
)

// Taken says why a request was granted nothing: the value of TakenHeader, as JSON in ASCII.
type Taken struct {
	HeldBy  string  `json:"held_by,omitempty"`
	HeldFor float64 `json:"held_s,omitempty"`
	Paused  bool    `json:"paused,omitempty"`
	Reason  string  `json:"pause_reason,omitempty"`
}

// NewTaken returns what a pool's lease at the lowest position, and a pause of the pool, say.
func NewTaken(d *kvslots.PoolDetail) (t Taken) {
	t.Reason, t.Paused = pausedBy(d.OutList)
	if len(d.Holders) > 0 {
		t.HeldBy, t.HeldFor = d.Holders[0].Label, inSeconds(d.Holders[0].Age)
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

// note adds the value of a header to an error. Other programs' values say nothing.
func (t Taken) note(value string, e *kvslots.NoSlotError) {
	if json.Unmarshal([]byte(value), &t) == nil {
		e.HeldBy, e.HeldFor, e.Paused, e.Reason = t.HeldBy, ofSeconds(t.HeldFor), t.Paused, t.Reason
	}
}
