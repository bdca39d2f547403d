package library

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// carryOutTimeout bounds what is done whether or not the client stays to hear
// of it.
const carryOutTimeout = 30 * time.Second

// carryOut is the context for what has no reason to stop half-way because the
// client hung up: a worker that returns its lease and exits without waiting
// for the answer has returned it.
func carryOut(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), carryOutTimeout)
}

// poolID is the id in the path. chi leaves percent-encoding in it when the
// path has any that was not needed.
func poolID(r *http.Request) (uuid.UUID, error) {
	text := chi.URLParam(r, "id")
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	return wire.ParseID("id", text)
}

// register answers PUT /l/{id} (gateway/README.md, "The Library API: /l").
func (d *Dialect) register(w http.ResponseWriter, r *http.Request) error {
	id, err := poolID(r)
	if err != nil {
		return err
	}
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		return err
	}
	request, err := wire.ParseRegister(body)
	if err != nil {
		return err
	}
	ctx, cancel := carryOut(r)
	defer cancel()
	state, err := d.pools.Register(ctx, id, request.Count)
	if err != nil {
		return err
	}
	_ = jsonhttp.Answer(w, http.StatusOK, wire.NewPool(id, state))
	return nil
}

// inspect answers GET /l/{id} (gateway/README.md, "The Library API: /l").
func (d *Dialect) inspect(w http.ResponseWriter, r *http.Request) error {
	id, err := poolID(r)
	if err != nil {
		return err
	}
	state, err := d.pools.Inspect(r.Context(), id)
	if err != nil {
		return err
	}
	_ = jsonhttp.Answer(w, http.StatusOK, wire.NewPool(id, state))
	return nil
}

// remove answers DELETE /l/{id} (gateway/README.md, "The Library API: /l").
func (d *Dialect) remove(w http.ResponseWriter, r *http.Request) error {
	id, err := poolID(r)
	if err != nil {
		return err
	}
	ctx, cancel := carryOut(r)
	defer cancel()
	if err := d.pools.Delete(ctx, id); err != nil {
		return err
	}
	_ = jsonhttp.Answer(w, http.StatusOK, wire.Deleted{Deleted: true})
	return nil
}
