package library

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// borrow answers POST /l/{id}/borrow (gateway/README.md, "The Library API: /l").
func (d *Dialect) borrow(w http.ResponseWriter, r *http.Request) error {
	arrived := time.Now()
	id, err := poolID(r)
	if err != nil {
		return err
	}
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		return err
	}
	request, err := wire.ParseBorrow(body)
	if err != nil {
		return err
	}
	lease, err := d.wait(r.Context(), id, request)
	if err != nil {
		return err
	}
	w.Header().Set(wire.WaitedHeader, wire.Waited(lease, arrived))
	d.hand(w, r, id, lease)
	return nil
}

// wait borrows, for as long as slots are lent at all.
func (d *Dialect) wait(ctx context.Context, id uuid.UUID, request wire.BorrowRequest) (*kvslots.Lease, error) {
	ctx, end := d.lending.Begin(ctx)
	defer end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return d.pools.Borrow(ctx, id, request.TTL, request.Wait)
}

// hand gives a lease to its borrower. When the borrower has hung up meanwhile,
// nobody knows the lease's id, so it goes back at once.
func (d *Dialect) hand(w http.ResponseWriter, r *http.Request, pool uuid.UUID, lease *kvslots.Lease) {
	if !jsonhttp.HungUp(r) && jsonhttp.Answer(w, http.StatusOK, wire.NewLease(lease)) == nil {
		return
	}
	ctx, cancel := carryOut(r)
	defer cancel()
	if _, err := d.pools.Return(ctx, pool, lease.ID()); err != nil {
		d.log.Warn().Err(err).Msg("a lease whose borrower hung up could not be returned; it ends by its ttl")
	}
}

// giveBack answers POST /l/{id}/return (gateway/README.md, "The Library API: /l").
func (d *Dialect) giveBack(w http.ResponseWriter, r *http.Request) error {
	id, err := poolID(r)
	if err != nil {
		return err
	}
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		return err
	}
	request, err := wire.ParseReturn(body)
	if err != nil {
		return err
	}
	ctx, cancel := carryOut(r)
	defer cancel()
	returned, err := d.pools.Return(ctx, id, request.Lease)
	if err != nil {
		return err
	}
	_ = jsonhttp.Answer(w, http.StatusOK, wire.Returned{Returned: returned})
	return nil
}

// renew answers POST /l/{id}/renew. The body is that of a return with a ttl, the
// answer that of a borrow.
func (d *Dialect) renew(w http.ResponseWriter, r *http.Request) error {
	arrived := time.Now()
	id, err := poolID(r)
	if err != nil {
		return err
	}
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		return err
	}
	request, err := wire.ParseRenew(body)
	if err != nil {
		return err
	}
	ctx, cancel := carryOut(r)
	defer cancel()
	lease, err := d.pools.Renew(ctx, id, request.Lease, request.TTL)
	if err != nil {
		return err
	}
	w.Header().Set(wire.WaitedHeader, wire.Waited(lease, arrived))
	_ = jsonhttp.Answer(w, http.StatusOK, wire.NewLease(lease))
	return nil
}
