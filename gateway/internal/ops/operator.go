package ops

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// The operations of operators (gateway/README.md, "Who holds it, and who waits"), and those of holders and of borrowers in line.
var (
	ListPools  = &Operation{Route: wire.ListPools, endsWithClient: true, perform: listPools}
	ReadPool   = &Operation{Route: wire.ReadPool, endsWithClient: true, perform: found(readPool)}
	ReadLeases = &Operation{Route: wire.ReadLeases, endsWithClient: true, perform: found(readPool)}
	ReadLine   = &Operation{Route: wire.ReadLine, endsWithClient: true, perform: found(readPool)}

	// OfOperators exist over all transports. ReadLeases and ReadLine, which are parts of ReadPool, exist over HTTP only.
	OfOperators = []*Operation{
		ListPools,
		ReadPool,
		{Route: wire.ReadHolder, endsWithClient: true, perform: readHolder},
		{Route: wire.ReadPlace, endsWithClient: true, perform: readPlace},
		{Route: wire.Evict, perform: found(evict)},
		{Route: wire.SetOut, perform: found(setOut)},
		{Route: wire.Pause, perform: found(setOut)},
		{Route: wire.SetLimit, perform: found(setLimit)},
	}
)

func listPools(ctx context.Context, s *Service, call *Call) error {
	type page struct {
		kvslots.PoolQuery
		most int
	}
	p := page{call.Operator.Query, call.Operator.Most}
	return s.read(ctx, call, p, func(ctx context.Context) (any, error) {
		for { // again, with fewer pools, if they are too long
			pools, next, err := s.Operator.ReadPools(ctx, p.PoolQuery)
			list := wire.NewPoolList(pools, next)
			if err != nil || p.most == 0 {
				return list, err
			}
			n := list.Fitting(p.most)
			if n == len(pools) {
				return list, nil
			}
			p.Max = n
		}
	})
}

// found returns an operation on what the request names by a part of a hash, or by a name. What can be paused need not be in use:
// a name that finds nothing is that of a lock.
func found(perform step) step {
	return func(ctx context.Context, s *Service, call *Call) error {
		o := call.Operator
		if o.Find != "" {
			err := s.find(ctx, call)
			if errors.Is(err, kvslots.ErrNoPool) && o.Position == kvslots.WholePool && wire.CheckKey(o.Find) == nil {
				o.Pool, err = kvslots.ByName(o.Find), nil
			}
			if err != nil {
				return err
			}
		}
		return perform(ctx, s, call)
	}
}

// find finds what the request names. To look for digits of a hash takes long.
func (s *Service) find(ctx context.Context, call *Call) (err error) {
	type named struct{ text string }
	o := call.Operator
	look := func(ctx context.Context) (any, error) { return s.Operator.FindPool(ctx, o.Find) }
	if strings.Trim(o.Find, "0123456789abcdefABCDEF") == "" {
		err = s.read(ctx, call, named{o.Find}, look)
	} else {
		call.Answer, err = look(ctx)
	}
	if err == nil {
		o.Pool = call.Answer.(kvslots.PoolRef)
	}
	call.Answer = nil
	return err
}

// longPage is how many leases and places a page may have that is read out of turn: it is the default.
const longPage = 200

func readPool(ctx context.Context, s *Service, call *Call) error {
	o := call.Operator
	read := func(ctx context.Context) (any, error) {
		detail, err := s.Operator.ReadPool(ctx, o.Pool, o.Page)
		call.Answer = detail
		return detail, err
	}
	var err error
	if max(o.Page.MaxHolders, 0)+max(o.Page.MaxWaiters, 0) > longPage {
		type page struct {
			pool string
			kvslots.DetailPage
		}
		err = s.read(ctx, call, page{o.Pool.Hash(), o.Page}, read)
	} else {
		_, err = read(ctx)
	}
	detail, _ := call.Answer.(kvslots.PoolDetail)
	if o.Most > 0 {
		wire.Shorten(&detail, o.Most)
	}
	call.Answer = detail
	return err
}

func readHolder(ctx context.Context, s *Service, call *Call) error {
	var holder kvslots.HolderStats
	var err error
	switch {
	case call.Session == "":
		holder, err = s.Operator.Holder(ctx, call.Pool, call.LeaseID)
	case s.Sessions == nil:
		err = kvslots.ErrSessionGone
	default:
		holder, err = s.grantHolder(ctx, call)
	}
	call.Answer = holder
	return err
}

// grantHolder reads the grant of a lock or a semaphore: the request does not say which of them it is.
func (s *Service) grantHolder(ctx context.Context, call *Call) (holder kvslots.HolderStats, err error) {
	for _, resource := range []kvslots.Resource{kvslots.Lock(call.Key), kvslots.Semaphore(call.Key, 1)} {
		holder, err = s.Sessions.GrantHolder(ctx, call.Session, resource, call.Token)
		if !errors.Is(err, kvslots.ErrNotHeld) {
			break
		}
	}
	return holder, err
}

func readPlace(ctx context.Context, s *Service, call *Call) error {
	waiter, holder, err := s.Operator.PlaceOf(ctx, call.Pool, call.RequestKey)
	var answer wire.Place
	if holder != nil {
		answer.Lease = holder
	} else {
		answer.Waiting = &waiter
	}
	call.Answer = answer
	return err
}

func evict(ctx context.Context, s *Service, call *Call) error {
	o := call.Operator
	holder, err := s.Operator.Evict(ctx, o.Pool, o.Position, o.Fence, call.operator(s))
	if err != nil {
		return err
	}
	call.Answer = wire.Evicted{Evicted: holder}
	call.logVerb(s, "an operator has ended a lease",
		slog.Int("position", holder.Position), slog.Uint64("fence", holder.Fence), slog.String("label", holder.Label))
	return nil
}

func setOut(ctx context.Context, s *Service, call *Call) error {
	o := call.Operator
	state, err := s.setOut(ctx, call)
	if err != nil {
		return err
	}
	call.Answer = state
	what, attrs := "a position", []slog.Attr{slog.Int("position", o.Position)}
	if o.Position == kvslots.WholePool {
		what, attrs = "a pool", nil
	}
	if o.Out {
		call.logVerb(s, "an operator has taken "+what+" out of service", append(attrs, slog.String("reason", o.Reason))...)
	} else {
		call.logVerb(s, "an operator has put "+what+" back into service", attrs...)
	}
	return nil
}

func (s *Service) setOut(ctx context.Context, call *Call) (state kvslots.State, err error) {
	o := call.Operator
	if !o.Out {
		return s.Operator.PutBack(ctx, o.Pool, o.Position, call.operator(s))
	}
	err = call.fromOrigin(kvslots.ErrMaxLocksPerOrigin, func(origin string) (err error) {
		out := kvslots.OutOfService{Position: o.Position, Reason: o.Reason}
		state, err = s.Operator.TakeOut(ctx, o.Pool, out, kvslots.WithOrigin(origin), call.operator(s))
		return err
	})
	return state, err
}

func setLimit(ctx context.Context, s *Service, call *Call) error {
	state, err := s.Operator.SetLimit(ctx, call.Operator.Pool, call.Limit, call.operator(s))
	if err != nil {
		return err
	}
	call.Answer = state
	call.logVerb(s, "an operator has changed a semaphore's limit", slog.Int("limit", call.Limit))
	return nil
}

// operator returns the option that names the operator who calls, if the token has a name.
func (c *Call) operator(s *Service) kvslots.Option {
	return kvslots.WithOperator(s.Lending.Tokens.NameOf(c.Operator.Authorization))
}

// logVerb logs what an operator has done with a pool, which it names by its hash.
func (c *Call) logVerb(s *Service, message string, attrs ...slog.Attr) {
	var trace Trace
	if c.Request != nil {
		trace = c.Trace()
	}
	attrs = append([]slog.Attr{slog.String("pool_hash", c.Operator.Pool.Hash())}, attrs...)
	if key := c.Operator.Pool.Key(); key != "" && uuid.Validate(key) != nil { // a UUID may be a pool's, by mistake
		attrs = append(attrs, slog.String("key", key))
	}
	if name := s.Lending.Tokens.NameOf(c.Operator.Authorization); name != "" {
		attrs = append(attrs, slog.String("operator", name))
	}
	trace.Log(s.Log, slog.LevelInfo, message, attrs...)
}
