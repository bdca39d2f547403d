package kvslots

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// TakenError is the ErrNoSlot or the ErrLimitMismatch of a call that asks for a slot, with why it was refused.
type TakenError struct {
	Err     error         // ErrNoSlot or ErrLimitMismatch
	Name    string        // of the lock or the semaphore; "" for a pool
	Place   int           // the place in line that the caller had when its wait was over, or would have got, from 1; 0: not known
	HeldBy  string        // the label of the lease at the lowest position; "": it has none, or is not known
	HeldFor time.Duration // how long that has been held
	Limit   int           // of the semaphore that is in use; 0: it is a lock, or a pool
	Paused  bool          // an operator has taken it out of service
	Reason  string        // with Paused: why
}

// Error returns such as "nightly: taken by ci@build3, for 3m0s; place 1 in the line".
func (e *TakenError) Error() string {
	text, why := e.Err.Error(), e.Why()
	switch {
	case e.Err == ErrLimitMismatch:
		text = "the key is in use " + e.Use()
	case e.Name != "" && why != "":
		text, why = why, ""
	case e.Name != "":
		text = "taken"
	}
	if e.Name != "" {
		text = legible(e.Name) + ": " + text
	}
	if why != "" {
		text += ": " + why
	}
	if e.Place > 0 {
		text += fmt.Sprintf("; place %d in the line", e.Place)
	}
	return text
}

// Why returns by whom it is taken and for how long, or the reason of a pause; "" if that is not known.
func (e *TakenError) Why() string {
	switch {
	case e.Paused && e.Reason != "":
		return "paused: " + legible(e.Reason)
	case e.Paused:
		return "paused"
	case e.HeldBy != "" || e.HeldFor > 0:
		return fmt.Sprintf("taken by %s, for %v", legible(cmp.Or(e.HeldBy, "an unnamed holder")), e.HeldFor.Truncate(time.Second))
	}
	return ""
}

// legible quotes a text with characters that may control a terminal, or that are not seen: any
// client may have written it.
func legible(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || IsHidden(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Use says how the name is in use of which ErrLimitMismatch is returned.
func (e *TakenError) Use() string {
	if e.Limit == 0 {
		return "as a lock"
	}
	return fmt.Sprintf("with limit %d", e.Limit)
}

func (e *TakenError) Unwrap() error { return e.Err }

// TakenName returns the error of a call that asks for a lock or a semaphore, with its name if it is a *TakenError, or ErrNoSlot.
func TakenName(err error, name string) error {
	if taken, ok := errors.AsType[*TakenError](err); ok {
		taken.Name = name
	} else if err == ErrNoSlot {
		return &TakenError{Err: err, Name: name}
	}
	return err
}

// refused returns the error of a call that asks for a slot.
func refused(err error, r *peer.Refusal) error {
	if r == nil {
		return err
	}
	taken := &TakenError{Err: err, Place: r.Place, HeldBy: r.Label, HeldFor: r.Age, Paused: r.Paused, Reason: r.Reason}
	if !r.Terms.Lock {
		taken.Limit = r.Terms.Limit
	}
	return taken
}
