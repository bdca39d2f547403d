package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

const unknownVariables = "no flag has these environment variables, which are ignored"

func load(command *cobra.Command, env settings.Environment, of settings.Group) error {
	warnOfUnknown(command, env)
	err := settings.Load(command, env, of)
	if _, usage := errors.AsType[settings.UsageError](err); err != nil && !usage {
		return exitError{exitSettings, err}
	}
	return err
}

// warnOfUnknown prints the variables that may be misspelled.
func warnOfUnknown(command *cobra.Command, env settings.Environment) {
	if unknown := env.Unknown(command.Root()); len(unknown) > 0 {
		fmt.Fprintf(command.ErrOrStderr(), "kvslots: %s: %s\n", unknownVariables, strings.Join(unknown, ", "))
	}
}
