package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const targetHelp = `<pool> is the pool's UUID, which is a secret, or @FILE, a file that contains it (@- is standard input); or the pool's hash,
or its first 8 digits or more, as "kvslots ls" prints it; or a name: the public one of a pool, or that of a lock or a semaphore. If
several have the name, --key names the lock or the semaphore. Without <pool> and --key the command takes the pool's UUID from KVSLOTS_POOL.`

const operatorHelp = `A gateway with an --auth-token requires it of operators, but over NATS neither for a pool's UUID nor to look at a lock or a
semaphore. With a token that may only read they change nothing.`

// newOperatorCommand is newGatewayCommand of a command of an operator, who need not know a pool's id.
func newOperatorCommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs, ownFlags func(*pflag.FlagSet),
	do func(ctx context.Context, c *gatewayCommand, args []string) error,
) *gatewayCommand {
	return newGatewayCommand(env, use, short, strings.TrimSpace(long)+"\n\n"+operatorHelp, args, ownFlags, do)
}

// newTargetCommand returns an operator's command about one pool, lock or semaphore. do is called
// with the arguments after the one that names it, which are called others.
func newTargetCommand(env settings.Environment, use, short, long string, others []string, ownFlags func(flags *pflag.FlagSet),
	do func(ctx context.Context, t *target, args []string) error,
) *cobra.Command {
	c := newOperatorCommand(env, use, short, strings.TrimSpace(long)+"\n\n"+targetHelp, arguments(append([]string{"[<pool>]"}, others...)...),
		func(flags *pflag.FlagSet) {
			if ownFlags != nil {
				ownFlags(flags)
			}
			flags.String("key", "", "the name of a lock or a semaphore, instead of <pool>")
		},
		func(ctx context.Context, c *gatewayCommand, args []string) error {
			named := len(args) - len(others) // 1 if <pool> was given
			return c.withTarget(ctx, args[:named], func(t *target) error { return do(ctx, t, args[named:]) })
		})
	c.ValidArgsFunction = completeNames(env, &c.at, "pool", "lock", "semaphore")
	_ = c.RegisterFlagCompletionFunc("key", completeNames(env, &c.at, "lock", "semaphore"))
	return c.Command
}

// withTarget connects to a gateway, and calls do with what is named in args, by --key, or else in the
// environment.
func (c *gatewayCommand) withTarget(ctx context.Context, args []string, do func(t *target) error) error {
	pool, text, err := c.ref(args)
	if err != nil {
		return err
	}
	return c.with(func(from *lender) error {
		known := true
		if text != "" {
			if pool, known, err = from.find(ctx, text); err != nil {
				return err
			}
		}
		return do(&target{gatewayCommand: c, from: from, pool: pool, unknown: !known})
	})
}

// ref returns the pool that was given in args, by --key, or else in the environment; or a text,
// for which a gateway has to look.
func (c *gatewayCommand) ref(args []string) (pool kvslots.PoolRef, text string, err error) {
	byKey := c.Flags().Changed("key")
	switch {
	case byKey && len(args) > 0:
		return pool, "", settings.Usagef("<pool> and --key exclude each other")
	case byKey:
		pool, err = lockRef("--key", c.Flag("key").Value.String())
		return pool, "", err
	case len(args) == 0 && c.env[settings.PoolVariable] == "":
		return pool, "", settings.Usagef("no <pool>, no --key, and no %s", settings.PoolVariable)
	case len(args) == 0:
		id, err := parseSecret(settings.PoolVariable, c.env[settings.PoolVariable])
		return kvslots.ByID(id), "", err
	case strings.HasPrefix(args[0], "@"):
		id, err := secretArgument(c.Command, "<pool>", args[0])
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
	pool, err := l.FindPool(ctx, text)
	err = l.explain(err)
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		if strings.ContainsAny(wrong.Range, "(") { // it lists several
			return pool, false, fmt.Errorf("%w; give one of these hashes, or a lock or semaphore by --key", wrong)
		}
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

// fewDigits matches what may be the beginning of a hash that is too short to be looked for.
var fewDigits = regexp.MustCompile(`^[0-9A-Fa-f]{1,7}$`)

func lockRef(argument, name string) (kvslots.PoolRef, error) {
	if err := wire.CheckKey(name); err != nil {
		return kvslots.PoolRef{}, settings.Usagef("%s is not the name of a lock: %w", argument, err)
	}
	return kvslots.ByName(name), nil
}

type target struct {
	*gatewayCommand
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
	case err != nil && fewDigits.MatchString(t.pool.Key()):
		return errors.New("no pool, and no lock or semaphore that is held, waited for or out of service, has this name; of a hash 8 digits are needed")
	case err != nil:
		return errors.New("no pool, and no lock or semaphore that is held, waited for or out of service, has this name")
	}
	return report(t.OutOrStdout(), t.json, body, text)
}
