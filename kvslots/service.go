package kvslots

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Service is what a program can do with pools, and with locks and semaphores. A Store and a
// client.Client are Services, with the same errors.
type Service interface {
	Lender
	Register(ctx context.Context, pool uuid.UUID, count int, opts ...Option) (State, error)
	Inspect(ctx context.Context, pool uuid.UUID) (State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, opts ...Option) (*Lease, error)

	CreateSession(ctx context.Context, opts ...Option) (id string, idle time.Duration, err error)
	Ping(ctx context.Context, session string) error
	EndSession(ctx context.Context, session string) error
	Acquire(ctx context.Context, session string, r Resource, opts ...Option) (Grant, error)
	Enqueue(ctx context.Context, session string, r Resource, opts ...Option) (g Grant, acquired bool, err error)
	Wait(ctx context.Context, session string, r Resource, wait time.Duration) (Grant, error)
	Release(ctx context.Context, session string, r Resource, token string) error
	RenewGrant(ctx context.Context, session string, r Resource, token string, ttl time.Duration) (remaining time.Duration, err error)
	GrantHolder(ctx context.Context, session string, r Resource, token string) (HolderStats, error)
}

// Operator is what an operator can do with pools, and with locks and semaphores: see who holds them and who
// waits, end a lease, take positions out of service, and change a semaphore's limit. A Store and a client.Client
// are Operators, with the same errors.
type Operator interface {
	FindPool(ctx context.Context, text string) (PoolRef, error)
	ReadPool(ctx context.Context, pool PoolRef, page DetailPage) (PoolDetail, error)
	ReadPools(ctx context.Context, q PoolQuery) (pools []PoolStats, next string, err error)
	Holder(ctx context.Context, pool, lease uuid.UUID) (HolderStats, error)
	PlaceOf(ctx context.Context, pool uuid.UUID, requestKey string) (WaiterStats, *HolderStats, error)
	Evict(ctx context.Context, pool PoolRef, position int, fence uint64, opts ...Option) (HolderStats, error)
	TakeOut(ctx context.Context, pool PoolRef, out OutOfService, opts ...Option) (State, error)
	PutBack(ctx context.Context, pool PoolRef, position int, opts ...Option) (State, error)
	SetLimit(ctx context.Context, pool PoolRef, limit int, opts ...Option) (State, error)
}

var (
	_ Service  = (*Store)(nil)
	_ Operator = (*Store)(nil)
)
