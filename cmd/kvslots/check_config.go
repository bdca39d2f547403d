package main

import (
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func checkConfigCommand(env settings.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "check-config",
		Short: "Check the settings of serve, and print them",
		Long: "Read the same flags, environment variables and configuration file as serve, and report everything that is\n" +
			"wrong with them. If nothing is wrong, print a configuration file with all settings and their sources, but without\n" +
			"secrets. The command opens no connection, and does not use the data directory.",
		Args: cobra.NoArgs,
	}
	check := settings.NewCheck(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		warnOfUnknown(command, env)
		if err := check.Run(env, command.InOrStdin()); err != nil {
			return err
		}
		return check.Print(command.OutOrStdout())
	}
	return command
}
