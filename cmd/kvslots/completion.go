package main

import (
	"cmp"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

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

const completionTime = 2 * time.Second

// hexadecimal matches what may be a part of a secret id, which is not sent to the gateway.
var hexadecimal = regexp.MustCompile(`^[0-9A-Fa-f-]*$`)

// completeNames offers what a gateway has, in place of the first argument of a command: the names
// of resources of these types, and the hashes of pools.
func completeNames(env settings.Environment, at *settings.Gateway, types ...string) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if settings.Load(command, env, at) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		from, err := dial(at, io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer from.Close()
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		query := kvslots.PoolQuery{Match: typed}
		if hexadecimal.MatchString(typed) {
			query.Match = ""
		}
		pools, _, _ := from.pools(ctx, query, defaultListed) // without an answer there is nothing to offer
		for i := range pools {
			p := &pools[i]
			offered := cmp.Or(p.Key, p.Hash.String())
			if slices.Contains(types, p.Type) && strings.HasPrefix(offered, typed) {
				found = append(found, cobra.CompletionWithDesc(offered, strings.TrimSpace(p.Type+" "+legible(p.Name))))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
