package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func (t *leaseTerms) addLabel(flags *pflag.FlagSet) {
	flags.StringVar(&t.label, "label", "", "who holds the slot, or waits for it: up to 64 printable characters, which operators see; no secret")
}

// checkText returns an error unless text, the value of a flag, can be a label, a name or a reason.
func checkText(flag, text string) error {
	wrong, ok := errors.AsType[*kvslots.RangeError](kvslots.WithLabel(text)(new(kvslots.Options)))
	if !ok {
		return nil
	}
	return settings.Usagef("--%s must be %s", flag, wrong.Range)
}
