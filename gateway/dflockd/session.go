package dflockd

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// create answers POST /v1/sessions (gateway/README.md, "The dflockd API: /v1").
func (d *Dialect) create(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(w, r); err != nil {
		return err
	}
	session, err := d.desk.Create(r.Context(), origin(r.RemoteAddr))
	if err != nil {
		return err
	}
	gone := jsonhttp.HungUp(r)
	if !gone && jsonhttp.Answer(w, http.StatusOK, session) == nil {
		return nil
	}
	// Nobody knows the id. If it cannot be ended it ends by being idle.
	_ = d.desk.End(context.WithoutCancel(r.Context()), session.ID)
	if gone {
		return context.Canceled
	}
	return nil
}

// ping answers POST /v1/sessions/{id}/ping.
func (d *Dialect) ping(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(w, r); err != nil {
		return err
	}
	if err := d.desk.Ping(r.Context(), pathValue(r, "id")); err != nil {
		return err
	}
	_ = jsonhttp.Done(w)
	return nil
}

// end answers DELETE /v1/sessions/{id}, and is carried out though the client
// may not stay to hear of it.
func (d *Dialect) end(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(w, r); err != nil {
		return err
	}
	if err := d.desk.End(context.WithoutCancel(r.Context()), pathValue(r, "id")); err != nil {
		return err
	}
	_ = jsonhttp.Done(w)
	return nil
}

// noBody reads a body that has nothing to say.
func noBody(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return body.Empty()
}

func readBody(w http.ResponseWriter, r *http.Request) (wire.Fields, error) {
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		return wire.Fields{}, err
	}
	return wire.ParseStrict(body)
}

// origin is whom the cap on sessions per address counts: an address of IPv4, or
// the network of 64 bits that an address of IPv6 is from, since one host may
// take any address in it.
func origin(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
