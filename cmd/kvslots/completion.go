package main

import "github.com/spf13/cobra"

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands and flags in a shell",
		Long: "Print a script that completes commands and flags in a shell. For this session:\n\n" +
			"    source <(kvslots completion bash)\n" +
			"    source <(kvslots completion zsh)\n" +
			"    kvslots completion fish | source",
		Args:      cobra.MatchAll(arguments("bash|zsh|fish"), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(command *cobra.Command, args []string) error {
			root, w := command.Root(), command.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			}
			return root.GenFishCompletion(w, true)
		},
	}
}
