package main

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// operatorCommand is a command of an operator, who need not know a pool's id.
type operatorCommand struct {
	*cobra.Command
	at   settings.Gateway
	env  settings.Environment
	json bool
	key  string // of --key; only of commands about one pool
}

const targetHelp = `<pool> is the pool's UUID, which is a secret, or @FILE, a file that contains it (@- is standard input); or the pool's hash,
or its first 8 digits or more, as "kvslots ls" prints it; or a name: the public one of a pool, or that of a lock or a semaphore. If
several have the name, --key names the lock or the semaphore. Without <pool> and --key the command takes the pool's UUID from KVSLOTS_POOL.`

const operatorHelp = `A gateway with an --auth-token requires it of operators: over NATS only for hashes, for lists of pools, and for changes of
locks and semaphores. With its --read-token they can read, and change nothing.`

// newOperatorCommand returns a command that calls do. ownFlags declares the flags that other
// commands do not have.
func newOperatorCommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs,
	ownFlags func(o *operatorCommand, flags *pflag.FlagSet), do func(ctx context.Context, o *operatorCommand, args []string) error,
) *cobra.Command {
	o := &operatorCommand{env: env}
	o.Command = &cobra.Command{
		Use:   use,
		Short: short,
		Long:  strings.TrimSpace(long) + "\n\n" + operatorHelp + "\n\n" + gatewayHelp,
		Args:  args,
		RunE: func(command *cobra.Command, args []string) error {
			if err := load(command, env, &o.at); err != nil {
				return err
			}
			return do(command.Context(), o, args)
		},
	}
	o.Flags().SortFlags = false
	ownFlags(o, o.Flags())
	o.Flags().BoolVar(&o.json, "json", false, "print the answer as a line of JSON; an error, too")
	o.at.AddFlags(o.Flags())
	return o.Command
}

// newTargetCommand returns an operator's command about one pool, lock or semaphore. do is called
// with the arguments after the one that names it, which are called others.
func newTargetCommand(env settings.Environment, use, short, long string, others []string, ownFlags func(flags *pflag.FlagSet),
	do func(ctx context.Context, t *target, args []string) error,
) *cobra.Command {
	var at *settings.Gateway
	command := newOperatorCommand(env, use, short, strings.TrimSpace(long)+"\n\n"+targetHelp,
		arguments(append([]string{"[<pool>]"}, others...)...),
		func(o *operatorCommand, flags *pflag.FlagSet) {
			if at = &o.at; ownFlags != nil {
				ownFlags(flags)
			}
			flags.StringVar(&o.key, "key", "", "the name of a lock or a semaphore, instead of <pool>")
		},
		func(ctx context.Context, o *operatorCommand, args []string) error {
			named := len(args) - len(others) // 1 if <pool> was given
			return o.withTarget(ctx, args[:named], func(t *target) error { return do(ctx, t, args[named:]) })
		})
	command.ValidArgsFunction = completeNames(env, at, "pool", "lock", "semaphore")
	_ = command.RegisterFlagCompletionFunc("key", completeNames(env, at, "lock", "semaphore"))
	return command
}

func (o *operatorCommand) with(do func(from *lender) error) error {
	from, err := dial(&o.at, o.ErrOrStderr())
	if err != nil {
		return err
	}
	defer from.Close()
	return do(from)
}

// withTarget connects to a gateway, and calls do with what is named in args, by --key, or else in the
// environment.
func (o *operatorCommand) withTarget(ctx context.Context, args []string, do func(t *target) error) error {
	pool, text, err := o.pool(args)
	if err != nil {
		return err
	}
	return o.with(func(from *lender) error {
		known := true
		if text != "" {
			if pool, known, err = from.find(ctx, text); err != nil {
				return err
			}
		}
		return do(&target{operatorCommand: o, from: from, pool: pool, unknown: !known})
	})
}

// pool returns the pool that was given in args, by --key, or else in the environment; or a text,
// for which a gateway has to look.
func (o *operatorCommand) pool(args []string) (pool kvslots.PoolRef, text string, err error) {
	byKey := o.Flags().Changed("key")
	switch {
	case byKey && len(args) > 0:
		return pool, "", settings.Usagef("<pool> and --key exclude each other")
	case byKey:
		pool, err = lockRef("--key", o.key)
		return pool, "", err
	case len(args) == 0 && o.env[settings.PoolVariable] == "":
		return pool, "", settings.Usagef("no <pool>, no --key, and no %s", settings.PoolVariable)
	case len(args) == 0:
		id, err := parseSecret(settings.PoolVariable, o.env[settings.PoolVariable])
		return kvslots.ByID(id), "", err
	case strings.HasPrefix(args[0], "@"):
		id, err := secretArgument(o.Command, "<pool>", args[0])
		return kvslots.ByID(id), "", err
	}
	if id, err := wire.ParseID("", args[0]); err == nil {
		return kvslots.ByID(id), "", nil
	}
	if pool, err := kvslots.ByHash(strings.ToLower(args[0])); err == nil {
		return pool, "", nil
	}
	if mistyped.MatchString(args[0]) {
		return pool, "", settings.Usagef("<pool> is not a whole UUID; if it is the name of a lock, give it as --key")
	}
	return pool, args[0], nil
}

// find returns the pool, lock or semaphore that a text names, and whether the gateway knows it. A lock that
// no client holds has no entry, and is named all the same.
func (l *lender) find(ctx context.Context, text string) (ref kvslots.PoolRef, known bool, err error) {
	pool, err := kvslots.FindPool(ctx, l, text)
	err = l.explain(err)
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return pool, false, wrong
	}
	if err == nil {
		return pool, true, nil
	}
	named, wrong := lockRef("<pool>", text)
	if wrong != nil && errors.Is(err, kvslots.ErrNoPool) {
		return named, false, errors.New("no pool has this name")
	}
	if wrong != nil {
		return named, false, err
	}
	return named, !errors.Is(err, kvslots.ErrNoPool), nil
}

// mistyped matches what may be an id that was not copied as a whole. As a name it would be sent
// to the gateway in clear.
var mistyped = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f-]*$`)

func lockRef(argument, name string) (kvslots.PoolRef, error) {
	if err := wire.CheckKey(name); err != nil {
		return kvslots.PoolRef{}, settings.Usagef("%s is not the name of a lock: %w", argument, err)
	}
	return kvslots.ByName(name), nil
}

type target struct {
	*operatorCommand
	from    *lender
	pool    kvslots.PoolRef
	unknown bool // pool was given by a name that the gateway does not know
}

func (t *target) answer(err error, body any, text string) error {
	switch _, byID := t.pool.ID(); {
	case !errors.Is(err, kvslots.ErrNoPool) && err != nil, byID && err != nil:
		return err
	case err != nil && t.pool.Key() == "":
		return errors.New("no pool, lock or semaphore in use has this hash")
	case err != nil:
		return errors.New("no pool, and no lock or semaphore that is held, waited for or out of service, has this name")
	}
	return report(t.OutOrStdout(), t.json, body, text)
}
