package main

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// The bodies of answers in the Library API (gateway/README.md, "The Library API: /l").
// With --json a command prints them as they are.
type (
	poolAnswer     wire.Pool
	leaseAnswer    wire.Lease
	deletedAnswer  wire.Deleted
	returnedAnswer wire.Returned
)

func (p poolAnswer) String() string {
	return fmt.Sprintf("count %d, in use %d, available %d, waiting %d", p.Count, p.InUse, p.Available, p.Waiting)
}

func addJSONFlag(flags *pflag.FlagSet, asJSON *bool) {
	flags.BoolVar(asJSON, "json", false, "print a line of JSON; an error, too")
}

// report prints a result: text for people, or body as a line of JSON.
func report(w io.Writer, asJSON bool, body any, text string) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, text)
		return err
	}
	line, err := wire.Encode(body)
	if err == nil {
		_, err = w.Write(append(escapeHidden(line), '\n'))
	}
	return err
}

// escapeHidden escapes what a terminal would obey, or not show, in JSON: control characters beyond
// those that JSON escapes anyway, and those of no width or that change the direction of text.
func escapeHidden(line []byte) (escaped []byte) {
	for _, c := range string(line) {
		if c < 0x7f || unicode.IsPrint(c) && !kvslots.IsHidden(c) {
			escaped = utf8.AppendRune(escaped, c)
			continue
		}
		for _, half := range utf16.Encode([]rune{c}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, half)
		}
	}
	return escaped
}
