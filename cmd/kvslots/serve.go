package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/server"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func serveCommand(env settings.Environment) *cobra.Command {
	var s *settings.Serve
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Serve pools over HTTP and NATS, from an embedded NATS server or from an existing one.\n\n" +
			"Every flag can also be given as an environment variable (--http-addr as KVSLOTS_HTTP_ADDR) and as a\n" +
			"key of the configuration file. Flags take precedence over the environment, and the environment over the\n" +
			"file. A duration without a unit is in seconds.\n\n" +
			"SIGTERM drains the gateway and ends it; a second SIGTERM, at least a second later, skips the wait.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := settings.Load(command, env, s); err != nil {
				return err
			}
			log, err := server.NewLogger(command.ErrOrStderr(), s.LogLevel, s.LogFormat)
			if err != nil {
				return err
			}
			if unknown := env.Unknown(command.Root()); len(unknown) > 0 {
				log.Warn(unknownVariables, "variables", unknown)
			}
			for _, name := range settings.WritableSecrets(command.Flags()) {
				log.Warn("every user of this machine may write this file, which has a secret", "flag", name)
			}
			if s.Check {
				_, err := fmt.Fprintln(command.OutOrStdout(), "the settings are valid")
				return err
			}
			err = server.Run(command.Context(), server.Config{
				Settings: s, Environment: env, Version: versionName(), Logger: log, Stderr: command.ErrOrStderr(),
			})
			if err != nil {
				log.Error("failed", "error", settings.ErrorText(command.Flags(), err))
				return exitError{exitFailed, nil}
			}
			log.Info("stopped")
			return nil
		},
	}
	s = settings.NewServe(command.Flags())
	return command
}
