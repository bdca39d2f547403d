// Command kvslots lends numbered slots. "kvslots serve" runs a gateway; most other
// commands are clients of a gateway.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, settings.ProcessEnvironment()))
}

// run is the program: args does not include the program's name, and the result is the
// exit code. Results are written to stdout, logs and errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env settings.Environment) int {
	started := false
	root := rootCommand(env)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra uses os.Args
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	code := printError(command, started, err, stderr)
	if _, evaluated := command.Annotations[evaluatedByShell]; evaluated && command.Flag("json").Value.String() == "false" {
		fmt.Fprintf(stdout, "(exit %d)\n", code)
	}
	return code
}

// evaluatedByShell annotates a command whose output a shell evaluates. If the command fails,
// it prints a line that fails with its exit code: eval succeeds with no line.
const evaluatedByShell = "evaluated by a shell"

// printError prints the error of a command, and returns the exit code.
func printError(command *cobra.Command, started bool, err error, stderr io.Writer) int {
	// Before a command has started, an error is cobra's and about the arguments.
	if _, usage := errors.AsType[settings.UsageError](err); usage || !started {
		fmt.Fprintf(stderr, "kvslots: %s\nRun '%s --help' for usage.\n", withoutIDs(settings.ErrorText(command.Flags(), err)), command.CommandPath())
		return exitUsage
	}
	code := exitFailed
	if coded, ok := errors.AsType[exitError](err); ok {
		code, err = coded.code, coded.error
	}
	if err != nil {
		fmt.Fprintf(stderr, "kvslots: %s\n", settings.ErrorText(command.Flags(), err))
	}
	return code
}

func rootCommand(env settings.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:           "kvslots",
		Short:         "A distributed semaphore on NATS JetStream",
		Long:          "kvslots lends the numbered slots of pools for a limited time, over HTTP and NATS, from NATS JetStream.",
		Version:       buildOf(debug.ReadBuildInfo()).String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// completion.go replaces cobra's.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(settings.FlagError)
	root.AddCommand(
		serveCommand(env), checkConfigCommand(env),
		registerCommand(env), inspectCommand(env), watchCommand(env), deleteCommand(env),
		borrowCommand(env), renewCommand(env), returnCommand(env),
		runCommand(env), lockCommand(env), semCommand(env),
		backupCommand(env), restoreCommand(env),
		limitCommand(env), benchCommand(env), readyCommand(env),
		completionCommand(), manCommand(), versionCommand(),
	)
	return root
}

var anyUUID = regexp.MustCompile(`[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}`)

// withoutIDs replaces UUIDs in an error of cobra, which repeats arguments: the UUID of
// a pool or a lease is a credential.
func withoutIDs(text string) string { return anyUUID.ReplaceAllString(text, "…") }
