package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"

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
	return json.NewEncoder(w).Encode(body)
}
