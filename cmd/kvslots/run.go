package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes; scripts depend on them.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitNoSlot = 75  // no slot in time; EX_TEMPFAIL of sysexits.h: try again later
	exitLost   = 124 // the command was ended because its lease was; as timeout(1) says it
)

// lookupEnv is os.LookupEnv, or a test's own environment.
type lookupEnv func(name string) (value string, ok bool)

// run is the whole program: args without the program's name, and the exit
// code. Results go to stdout, logs and errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env lookupEnv) int {
	started := false
	root := rootCommand(env)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// Whatever cobra finds wrong it finds before a command has started.
	if _, usage := errors.AsType[usageError](err); usage || !started {
		fmt.Fprintf(stderr, "kvslots: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		return exitUsage
	}
	code := exitFailed
	if coded, ok := errors.AsType[exitError](err); ok {
		code, err = coded.code, coded.error
	}
	if _, logged := errors.AsType[loggedError](err); !logged && err != nil {
		fmt.Fprintf(stderr, "kvslots: %v\n", err)
	}
	return code
}

func rootCommand(env lookupEnv) *cobra.Command {
	root := &cobra.Command{
		Use:           "kvslots",
		Short:         "A distributed semaphore on NATS JetStream",
		Long:          "kvslots lends the numbered slots of pools for a bounded time, over HTTP, from NATS JetStream.",
		SilenceErrors: true,
		SilenceUsage:  true,
		// completion.go has our own.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(
		serveCommand(env),
		registerCommand(env), inspectCommand(env), watchCommand(env), deleteCommand(env),
		borrowCommand(env), returnCommand(env), runCommand(env),
		limitCommand(env), benchCommand(env),
		completionCommand(), versionCommand(),
	)
	return root
}

// usageError is a mistake in how the program was called: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, v ...any) error { return usageError{fmt.Errorf(format, v...)} }

// exitError ends the program with a code of its own. Without an error inside
// it ends without a word.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// Error is only asked for by those who do not know the type.
func (e exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}

// loggedError has been logged, and need not be printed again.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }
