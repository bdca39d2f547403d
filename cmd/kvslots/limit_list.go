package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/cosmo"
)

type heldAnswer struct {
	limitAnswer
	JobID    string `json:"jid"`
	Age      int    `json:"age"`      // in seconds, rounded down
	Duration int    `json:"duration"` // in seconds; 0 if the slot is not freed by time
}

func limitListCommand(env settings.Environment) *cobra.Command {
	return newLimitSubcommand(env, "list [<key>]", "List the slots of limits that are held",
		"List the slots in the bucket that jobs hold, in the order of their acquisition, or only those of the limit <key>.\n"+
			"Each has a line with the job's id, the time since the acquisition, the duration and the revision.",
		arguments("[<key>]"), func(*pflag.FlagSet) {}, func() error { return nil },
		func(s *limitSubcommand, args []string) error {
			return s.with(func(ctx context.Context, l *cosmo.Limiter) error {
				for held, err := range l.Held(ctx) {
					if err != nil {
						return err
					}
					if len(args) > 0 && held.Key != args[0]+"/"+strconv.Itoa(held.Number) {
						continue
					}
					if err := s.printHeld(held); err != nil {
						return err
					}
				}
				return nil
			})
		})
}

func (s *limitSubcommand) printHeld(held cosmo.Held) error {
	age := held.Age.Truncate(time.Second)
	return report(s.OutOrStdout(), s.json,
		heldAnswer{answerOf(held.Slot), held.JobID, int(age / time.Second), int(held.Duration / time.Second)},
		fmt.Sprintf("%s: job %s, age %s of %s, revision %d", legible(held.Key), legible(held.JobID), settings.FormatDuration(age),
			settings.FormatDuration(held.Duration), held.Revision))
}

// legible quotes a text with characters that may control a terminal, or that are not seen: any
// client may have written it.
func legible(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || kvslots.IsHidden(r) }) {
		return strconv.Quote(text)
	}
	return text
}
