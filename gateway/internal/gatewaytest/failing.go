package gatewaytest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

// Failing is a store whose methods all return Err.
type Failing struct{ Err error }

var _ interface {
	ops.Pools
	ops.Sessions
} = Failing{}

func (f Failing) Register(context.Context, uuid.UUID, int, ...kvslots.Option) (kvslots.State, error) {
	return kvslots.State{}, f.Err
}

func (Failing) ID() string { return "" }

func (f Failing) FindPool(context.Context, string) (kvslots.PoolRef, error) {
	return kvslots.PoolRef{}, f.Err
}

func (f Failing) ReadPool(context.Context, kvslots.PoolRef, kvslots.DetailPage) (kvslots.PoolDetail, error) {
	return kvslots.PoolDetail{}, f.Err
}

func (f Failing) ReadPools(context.Context, kvslots.PoolQuery) ([]kvslots.PoolStats, string, error) {
	return nil, "", f.Err
}

func (f Failing) Holder(context.Context, uuid.UUID, uuid.UUID) (kvslots.HolderStats, error) {
	return kvslots.HolderStats{}, f.Err
}

func (f Failing) PlaceOf(context.Context, uuid.UUID, string) (kvslots.WaiterStats, *kvslots.HolderStats, error) {
	return kvslots.WaiterStats{}, nil, f.Err
}

func (f Failing) Evict(context.Context, kvslots.PoolRef, int, uint64, ...kvslots.Option) (kvslots.HolderStats, error) {
	return kvslots.HolderStats{}, f.Err
}

func (f Failing) TakeOut(context.Context, kvslots.PoolRef, kvslots.OutOfService, ...kvslots.Option) (kvslots.State, error) {
	return kvslots.State{}, f.Err
}

func (f Failing) PutBack(context.Context, kvslots.PoolRef, int, ...kvslots.Option) (kvslots.State, error) {
	return kvslots.State{}, f.Err
}

func (f Failing) SetLimit(context.Context, kvslots.PoolRef, int, ...kvslots.Option) (kvslots.State, error) {
	return kvslots.State{}, f.Err
}

func (f Failing) Delete(context.Context, uuid.UUID) error { return f.Err }

func (f Failing) Borrow(context.Context, uuid.UUID, ...kvslots.Option) (*kvslots.Lease, error) {
	return nil, f.Err
}

func (f Failing) Return(context.Context, uuid.UUID, uuid.UUID) (bool, error) { return false, f.Err }

func (f Failing) Abandon(context.Context, *kvslots.Lease) error { return f.Err }

func (f Failing) AbandonGrant(context.Context, string, kvslots.Resource, kvslots.Grant) error {
	return f.Err
}

func (f Failing) Renew(context.Context, uuid.UUID, uuid.UUID, time.Duration) (*kvslots.Lease, error) {
	return nil, f.Err
}

func (f Failing) GrantHolder(context.Context, string, kvslots.Resource, string) (kvslots.HolderStats, error) {
	return kvslots.HolderStats{}, f.Err
}

func (f Failing) CreateSession(context.Context, ...kvslots.Option) (string, time.Duration, error) {
	return "", 0, f.Err
}

func (f Failing) Ping(context.Context, string) error { return f.Err }

func (f Failing) EndSession(context.Context, string) error { return f.Err }

func (f Failing) Acquire(context.Context, string, kvslots.Resource, ...kvslots.Option) (kvslots.Grant, error) {
	return kvslots.Grant{}, f.Err
}

func (f Failing) Enqueue(context.Context, string, kvslots.Resource, ...kvslots.Option) (kvslots.Grant, bool, error) {
	return kvslots.Grant{}, false, f.Err
}

func (f Failing) Wait(context.Context, string, kvslots.Resource, time.Duration) (kvslots.Grant, error) {
	return kvslots.Grant{}, f.Err
}

func (f Failing) Release(context.Context, string, kvslots.Resource, string) error { return f.Err }

func (f Failing) RenewGrant(context.Context, string, kvslots.Resource, string, time.Duration) (time.Duration, error) {
	return 0, f.Err
}

func (f Failing) StatsPage(context.Context, kvslots.PoolPage) (kvslots.Stats, error) {
	return kvslots.Stats{}, f.Err
}
