package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"unicode"

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

// defaultLabel returns the label of what a command is run under: user@host:pid and the command's
// name. The command's arguments are left out, since they may contain secrets, and every reader of
// the gateway sees labels.
func defaultLabel(command string) string {
	who := "?"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	label := []rune(fmt.Sprintf("%s@%s:%d %s", who, host, os.Getpid(), filepath.Base(command)))
	for i, r := range label {
		if !unicode.IsPrint(r) || kvslots.IsHidden(r) {
			label[i] = '?'
		}
	}
	return strings.TrimSpace(string(label[:min(len(label), kvslots.MaxLabel)]))
}
