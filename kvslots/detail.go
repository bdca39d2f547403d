package kvslots

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// DetailPage selects what ReadPool lists: up to MaxHolders leases whose position is at least
// From, and up to MaxWaiters places in line after the first After; 0 or less lists none. The zero
// DetailPage is the first page, with up to 100 of each.
type DetailPage struct {
	From, MaxHolders  int
	After, MaxWaiters int
}

// OrFirst returns the first page for the zero DetailPage, and p otherwise. It is for packages that
// implement Operator.
func (p DetailPage) OrFirst() DetailPage {
	if p == (DetailPage{}) {
		p.MaxHolders, p.MaxWaiters = 100, 100
	}
	return p
}

// ReadPool returns what a pool holds, as it was at an instant between the call and its return.
// It costs what the pool holds, not what the bucket holds.
//
// The errors are ErrNoPool, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) ReadPool(ctx context.Context, pool PoolRef, page DetailPage) (PoolDetail, error) {
	page = page.OrFirst()
	a, err := s.bucket.Do(ctx, peer.ReadPool{
		Pool: pool.hash, From: page.From, After: page.After, MaxHolders: page.MaxHolders, MaxWaiters: page.MaxWaiters,
	})
	if err != nil {
		return PoolDetail{}, err
	}
	return *a.Detail, nil
}

// Holder returns a lease of Borrow by its id: so its holder can ask whether it still has it,
// without a renewal.
//
// The errors are ErrNotHeld, ErrNoPool, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) Holder(ctx context.Context, pool, lease uuid.UUID) (HolderStats, error) {
	return s.holder(ctx, peer.ReadLease{Held: peer.Held{Pool: poolHash(pool), Lease: leaseHash(lease)}})
}

// holder returns the lease that a request is answered with.
func (s *Store) holder(ctx context.Context, r peer.Request) (HolderStats, error) {
	a, err := s.bucket.Do(ctx, r)
	if err != nil {
		return HolderStats{}, err
	}
	return a.Detail.Holders[0], nil
}

// GrantHolder is Holder for the grant of a session, or of none: see RenewGrant, which has the same errors.
func (s *Store) GrantHolder(ctx context.Context, session string, r Resource, token string) (HolderStats, error) {
	held, err := r.held(session, token)
	if err != nil {
		return HolderStats{}, err
	}
	return s.holder(ctx, peer.ReadLease{Held: held})
}

// PlaceOf returns the place in line of the Borrow with a request key; or, if it has a lease
// already, a zero place and the lease.
//
// The errors are ErrNotInLine, ErrNoPool, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) PlaceOf(ctx context.Context, pool uuid.UUID, requestKey string) (WaiterStats, *HolderStats, error) {
	a, err := s.bucket.Do(ctx, peer.ReadPlace{Pool: poolHash(pool), Request: requestHash(string(pool[:]), requestKey)})
	switch {
	case err != nil:
		return WaiterStats{}, nil, err
	case len(a.Detail.Holders) > 0:
		return WaiterStats{}, &a.Detail.Holders[0], nil
	}
	return a.Detail.Waiters[0], nil, nil
}

// PoolOrder is an order of pools.
type PoolOrder int

// The orders. Each begins with the pools that have most of it.
const (
	ByWaiting    PoolOrder = iota // borrowers in line, and then leases
	ByOldestWait                  // the time that the first borrower in line has waited
	ByInUse                       // leases
	ByExpired                     // PoolStats.Expired
)

// PoolQuery selects what ReadPools lists.
type PoolQuery struct {
	Order   PoolOrder
	After   string // what ReadPools has returned as next; "": from the first pool
	Max     int    // 1 to MaxPoolsRead
	Match   string // a part of the name, or the beginning of the hash, in any case of letters; "": all
	Holder  string // a part of the label of a holder or of a borrower in line, in any case of letters; "": all
	Waiting bool   // only the pools with borrowers in line
}

// MaxPoolsRead is the highest PoolQuery.Max.
const MaxPoolsRead = 1000

// ReadPools returns the registered pools, and the locks and semaphores that are held or waited
// for, in an order. next is not "" if there are more. Pools whose measure changes between two
// calls may be listed twice, or not at all. Each call looks at every pool once.
//
// The errors are ErrUnavailable, ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) ReadPools(ctx context.Context, q PoolQuery) (pools []PoolStats, next string, err error) {
	if q.Max < 1 || q.Max > MaxPoolsRead {
		return nil, "", &RangeError{"max", fmt.Sprintf("between 1 and %d", MaxPoolsRead)}
	}
	order := peer.Order(q.Order)
	after, err := parseCursor(q.After)
	if err != nil {
		return nil, "", err
	}
	a, err := s.bucket.Do(ctx, peer.ReadPools{Order: order, After: after, Max: q.Max, Match: q.Match, Holder: q.Holder, Waited: q.Waiting})
	if err != nil {
		return nil, "", err
	}
	pools = a.Stats.Pools
	if a.Stats.More {
		last := order.CursorOf(&pools[len(pools)-1])
		next = strconv.FormatUint(last.Measure, 36) + "-" + last.Pool.String()
	}
	return pools, next, nil
}

func parseCursor(text string) (c peer.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	measure, hash, _ := strings.Cut(text, "-")
	if c.Measure, err = strconv.ParseUint(measure, 36, 64); err == nil {
		err = c.Pool.UnmarshalText([]byte(hash))
	}
	if err != nil {
		return c, &RangeError{"after", "what the page before has returned as next"}
	}
	return c, nil
}
