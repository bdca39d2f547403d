package ops

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// The operations of operators (gateway/README.md, "Who holds it, and who waits").
var (
	ListPools  = &Operation{Route: wire.ListPools, endsWithClient: true, perform: listPools}
	ReadHolder = &Operation{Route: wire.ReadHolder, endsWithClient: true, perform: readHolder}
	ReadPlace  = &Operation{Route: wire.ReadPlace, endsWithClient: true, perform: readPlace}
)

// OfOperators returns what operators may do to a pool that requests name in this way.
func OfOperators(naming wire.Naming) []*Operation {
	reads := []wire.Route{naming.ReadPool()}
	switch naming {
	case wire.BySecret: // Inspect has the path of ReadPool
		reads = []wire.Route{naming.ReadLeases(), naming.ReadLine()}
	case wire.OverNATS:
	default:
		reads = append(reads, naming.ReadLeases(), naming.ReadLine())
	}
	var all []*Operation
	for _, route := range reads {
		all = append(all, &Operation{Route: route, endsWithClient: true, perform: found(readPool)})
	}
	if naming == wire.BySecret || naming == wire.OverNATS {
		all = append(all, ReadHolder, ReadPlace)
	}
	if naming != wire.BySecret && naming != wire.ByLock {
		all = append(all, &Operation{Route: naming.SetLimit(), perform: found(setLimit)})
	}
	return append(all,
		&Operation{Route: naming.Evict(), perform: found(evict)},
		&Operation{Route: naming.SetOut(), perform: found(setOut)},
		&Operation{Route: naming.Pause(), perform: found(setOut)},
	)
}

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

// found returns an operation on the pool that the request names by a part of its hash, or by its
// public name.
func found(perform func(ctx context.Context, s *Service, call *Call) error) func(ctx context.Context, s *Service, call *Call) error {
	type named struct{ text string }
	return func(ctx context.Context, s *Service, call *Call) error {
		if o := call.Operator; o.Find != "" {
			err := s.read(ctx, call, named{o.Find}, func(ctx context.Context) (any, error) { return s.Operator.FindPool(ctx, o.Find) })
			if err != nil {
				return err
			}
			o.Pool, call.Answer = call.Answer.(kvslots.PoolRef), nil
		}
		return perform(ctx, s, call)
	}
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
	if err == nil && o.Type != "" && o.Type != detail.Type {
		return kvslots.ErrLimitMismatch
	}
	if o.Most > 0 {
		wire.Shorten(&detail, o.Most)
	}
	call.Answer = detail
	return err
}

func readHolder(ctx context.Context, s *Service, call *Call) error {
	holder, err := s.Operator.Holder(ctx, call.Pool, call.LeaseID)
	call.Answer = holder
	return err
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
