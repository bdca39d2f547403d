package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

// runOptions are the flags of the commands that run a command: run, lock and sem. Those with a
// letter are as those of flock(1).
type runOptions struct {
	leaseTerms
	killAfter    time.Duration
	noWait       bool
	conflictCode int
	errorCode    int // 0: each error has its own
	keepSecrets  bool
	quiet        bool
	shell        string
	close        bool
	also         []string
}

// addFlags declares the flags. what is a slot or a lock, and others what --also names.
func (o *runOptions) addFlags(flags *pflag.FlagSet, ttl, wait time.Duration, what, others string) {
	o.leaseTerms.addFlags(flags, ttl, wait)
	flags.Lookup("label").Usage += "; by default user@host:pid command, without the command's arguments"
	flags.BoolVarP(&o.noWait, "no-wait", "n", false, "do not wait, as with --wait 0")
	flags.VarP(settings.Number(&o.conflictCode, exitNoSlot, 0, 255), "conflict-exit-code", "E", "exit code if the "+what+" is taken until --wait is over")
	flags.Var(settings.Number(&o.errorCode, 0, 0, 255), "error-exit-code", "exit code of kvslots if the command did not run, whatever the reason; 0 means one for each reason")
	flags.BoolVar(&o.keepSecrets, "keep-credentials", false, "leave the variables with credentials of kvslots to the command")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing if the "+what+" is taken")
	flags.StringVarP(&o.shell, "command", "c", "", "run this line with /bin/sh -c, instead of a command after --")
	addClose(flags, &o.close)
	flags.StringArrayVar(&o.also, "also", nil, others+"; may be repeated. All are taken, or none")
	flags.Var(settings.Duration(&o.killAfter, 0, 0, time.Hour), "kill-after",
		"time for the command to end after SIGTERM; 0 means a fifteenth of --ttl, 1s to 10s")
}

func addClose(flags *pflag.FlagSet, closes *bool) {
	flags.BoolVarP(closes, "close", "o", false, "give back when the command itself has ended, and not when what it has started in the background has")
}

// runs makes a command one that runs another: its errors have exit codes, and its flags come before the other's.
func (o *runOptions) runs(command *cobra.Command) {
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error { return o.coded(run(command, args)) }
	command.DisableFlagsInUseLine = true
}

// load checks the flags. It returns the arguments that come before the command, and the command.
func (o *runOptions) load(command *cobra.Command, args []string) (before, argv []string, err error) {
	switch dash := command.ArgsLenAtDash(); {
	case o.shell != "":
		before, argv = args, []string{"/bin/sh", "-c", o.shell}
	case dash < 0 || dash == len(args):
		return nil, nil, settings.Usagef("the command is missing: put it after --")
	default:
		before, argv = args[:dash], args[dash:]
	}
	if o.noWait {
		o.wait = 0
	}
	if !command.Flags().Changed("label") {
		o.label = client.DefaultLabel(argv[0])
	}
	if err := checkText("label", o.label); err != nil {
		return nil, nil, err
	}
	o.killAfter, err = timeToEnd(o.killAfter, "ttl", o.ttl)
	return before, argv, err
}

// holding is what a command runs under: a slot, a lock, or several of them.
type holding interface {
	underlease.Slot
	printShortfall()
	environment() []string // variables for the command
	close()
}

// runUnder runs argv while h is held. granted is called before; it may be nil.
func (o *runOptions) runUnder(ctx context.Context, p *cobra.Command, h holding, argv []string, granted func() error) error {
	environment := settings.WithoutSecrets(os.Environ())
	if o.keepSecrets {
		environment = os.Environ()
	}
	return runUnder(ctx, p, argv, environment, underlease.Config{Slot: h, KillAfter: o.killAfter, Close: o.close}, func() ([]string, error) {
		h.printShortfall()
		if granted == nil {
			return h.environment(), nil
		}
		return h.environment(), granted()
	})
}

// coded returns the error with its exit code: that of --error-exit-code for all, or of --conflict-exit-code if
// what was asked for is taken. An error without a text is that of the command.
func (o *runOptions) coded(err error) error {
	own, ok := errors.AsType[exitError](err)
	switch {
	case err == nil, ok && own.error == nil:
		return err
	case !ok:
		own = exitError{codeOf(err), err}
	}
	own.code = cmp.Or(o.errorCode, own.code)
	if errors.Is(err, kvslots.ErrNoSlot) {
		if o.conflictCode != exitNoSlot || o.errorCode == 0 {
			own.code = o.conflictCode
		}
		if o.quiet {
			own.error = nil
		}
	}
	return own
}

// timeToEnd returns --kill-after, or its default if it is 0. It must leave the command time
// to run under a lease whose length is given with flag.
func timeToEnd(killAfter time.Duration, flag string, ttl time.Duration) (time.Duration, error) {
	killAfter = cmp.Or(killAfter, underlease.DefaultKillAfter(ttl))
	if margin := underlease.Margin(ttl); killAfter+margin >= ttl {
		return 0, settings.Usagef("--kill-after must be less than --%s, by more than %s: the command would have no time to run", flag, settings.FormatDuration(margin))
	}
	return killAfter, nil
}

// runUnder runs argv under a lease, with the streams of command. granted is called when the
// lease is granted, and returns the variables to add to the environment of argv.
func runUnder(ctx context.Context, command *cobra.Command, argv, variables []string, cfg underlease.Config, granted func() ([]string, error)) error {
	cfg.Alone = command.InOrStdin() == os.Stdin
	child := exec.Command(argv[0], argv[1:]...)
	child.Stdin, child.Stdout, child.Stderr = command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr()
	cfg.Command = child
	cfg.Prepare = func() error {
		environment, err := granted()
		child.Env = append(variables, environment...)
		return err
	}
	cfg.Printf = func(format string, v ...any) { fmt.Fprintf(command.ErrOrStderr(), "kvslots: "+format+"\n", v...) }
	code, err := underlease.Run(ctx, cfg)
	if code != exitDone {
		return exitError{code, err}
	}
	return err
}
