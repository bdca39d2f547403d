package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, settings.ProcessEnvironment()))
}

// run is the program: args does not include the program's name, and the result is the
// exit code. Results are written to stdout, logs and errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env settings.Environment) int {
	started := false
	root := rootCommand(env)
	heedPipes := func() {}
	defer func() { heedPipes() }()
	root.PersistentPreRun = func(command *cobra.Command, _ []string) {
		started = true
		if slices.Contains(longRunning, strings.TrimPrefix(command.CommandPath(), "kvslots ")) {
			heedPipes = withoutBrokenPipe()
		}
	}
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra uses os.Args
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	defer withoutBrokenPipe()()
	// Before a command has started, an error is cobra's and about the arguments.
	_, usage := errors.AsType[settings.UsageError](err)
	usage = usage || !started
	code, text := failure(command, usage, err)
	if text != "" {
		fmt.Fprintf(stderr, "kvslots: %s\n", text)
	}
	if usage {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", command.CommandPath())
	}
	_, evaluated := command.Annotations[evaluatedByShell]
	switch asJSON := command.Flag("json"); {
	case asJSON != nil && asJSON.Value.String() == "true":
		if text != "" {
			_ = report(stdout, true, wire.Failure{Error: text}, "")
		}
	case evaluated:
		fmt.Fprintf(stdout, "(exit %d)\n", code)
	}
	return code
}

// evaluatedByShell annotates a command whose output a shell evaluates. If the command fails,
// it prints a line that fails with its exit code: eval succeeds with no line.
const evaluatedByShell = "evaluated by a shell"

// failure returns the exit code of a command that has failed, and the error's text, which is "" if
// the exit code is enough.
func failure(command *cobra.Command, usage bool, err error) (code int, text string) {
	if usage {
		return exitUsage, withoutIDs(settings.ErrorText(command.Flags(), err))
	}
	code = exitFailed
	if errors.Is(err, client.ErrTwoStores) {
		code = exitSettings
	}
	if coded, ok := errors.AsType[exitError](err); ok {
		code, err = coded.code, coded.error
	}
	if err != nil {
		text = settings.ErrorText(command.Flags(), err)
	}
	return code, text
}

// The help lists commands in the order of rootCommand.
func init() { cobra.EnableCommandSorting = false }

func rootCommand(env settings.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kvslots",
		Short: "A distributed semaphore on NATS JetStream",
		Long:  "kvslots lends the numbered slots of pools for a limited time, over HTTP and NATS, from NATS JetStream.",
		// A template would link text/template, with which the linker keeps all exported methods: 4.4 MB.
		Version:       buildOf(debug.ReadBuildInfo()).String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// completion.go replaces cobra's.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(settings.FlagError)
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Use", []*cobra.Command{
			lockCommand(env), semCommand(env), runCommand(env), borrowCommand(env), renewCommand(env), returnCommand(env),
			registerCommand(env), deleteCommand(env), cosmoCommand(env), clusterCommand(env),
		}},
		{"Look", []*cobra.Command{
			lsCommand(env), topCommand(env), holdersCommand(env), lineCommand(env), inspectCommand(env), watchCommand(env),
		}},
		{"Operate", []*cobra.Command{
			evictCommand(env), pauseCommand(env), resumeCommand(env), outCommand(env), inCommand(env), resizeCommand(env),
		}},
		{"Serve", []*cobra.Command{
			serveCommand(env), readyCommand(env), backupCommand(env), restoreCommand(env), benchCommand(env),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, command := range group.commands {
			command.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(completionCommand(), manCommand(), versionCommand())
	addExamples(root)
	return root
}

var anyUUID = regexp.MustCompile(`[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}`)

// withoutIDs replaces UUIDs in an error of cobra, which repeats arguments: the UUID of
// a pool or a lease is a credential.
func withoutIDs(text string) string { return anyUUID.ReplaceAllString(text, "…") }
