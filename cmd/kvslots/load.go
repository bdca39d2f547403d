package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

const unknownVariables = "no flag has these environment variables, which are ignored"

// newCommand returns a command that loads its settings and calls do. The caller declares the flags.
func newCommand(env settings.Environment, of settings.Group, use, short, long string, args cobra.PositionalArgs,
	do func(command *cobra.Command, args []string) error,
) *cobra.Command {
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  strings.TrimSpace(long),
		Args:  args,
		RunE: func(command *cobra.Command, args []string) error {
			if err := load(command, env, of); err != nil {
				return err
			}
			return do(command, args)
		},
	}
	command.Flags().SortFlags = false
	return command
}

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
