package bench

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// httpTransport is the API /l of a gateway. Measured requests use raw connections.
type httpTransport struct {
	to   Endpoint
	hold Holder
}

func HTTP(to Endpoint, hold Holder) Transport { return httpTransport{to, hold} }

func (d httpTransport) Name() string { return transportHTTP }

func (d httpTransport) Pools(ctx context.Context, pools, slots, clients int) (Pools, error) {
	p, err := d.share(newIDs(pools), clients)
	if err != nil {
		return nil, err
	}
	return p, withStatus(p.register(ctx, slots))
}

func (d httpTransport) Share(ids []uuid.UUID, clients int) (Pools, error) {
	return d.share(ids, clients)
}

func (d httpTransport) share(ids []uuid.UUID, clients int) (*httpPools, error) {
	c, err := newHTTPClients(d.to, d.hold, clients)
	return &httpPools{c, &clientPools{api: c.api, ids: ids, clients: clients}}, err
}

func (d httpTransport) Named(context.Context, int, int) (Pools, error) {
	return nil, errors.ErrUnsupported
}

type httpClients struct {
	to    Endpoint
	hold  Holder
	api   *client.Client // for requests that are not measured
	conns []httpConn     // by client
}

func newHTTPClients(to Endpoint, hold Holder, clients int) (httpClients, error) {
	api, err := client.Dial(context.Background(), to.URL(), client.Config{Token: to.token, TLS: to.tls})
	c := httpClients{to: to, hold: hold, api: api, conns: make([]httpConn, clients)}
	for i := range c.conns {
		c.conns[i].to = to
	}
	return c, err
}

func (c httpClients) closeAll(ctx context.Context, made Pools) error {
	defer c.api.Close()
	for i := range c.conns {
		c.conns[i].close()
	}
	return made.Close(ctx)
}

// queue sends a request of each client, on connections whose answers are not read.
func (c httpClients) queue(ctx context.Context, request func(client int) []byte) (leave func() error, err error) {
	requests := make([][]byte, len(c.conns))
	for client := range requests {
		requests[client] = request(client)
	}
	end, err := c.hold(ctx, c.to, requests)
	return func() error { end(); return nil }, err
}

// ask sends a client's request and decodes the answer into answer, unless answer is
// nil.
func (c httpClients) ask(ctx context.Context, client int, request []byte, answer any) error {
	body, err := c.conns[client].do(ctx, request)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

type httpPools struct {
	httpClients
	*clientPools
}

func (p *httpPools) path(pool int, operation string) string {
	return "/l/" + p.ids[pool].String() + operation
}

func (p *httpPools) borrow(pool int, ttl, wait time.Duration) []byte {
	body := wire.Borrow.Body(&wire.Params{TTL: ttl, Wait: wait})
	return p.to.request("POST", p.path(pool, "/borrow"), "", body)
}

func (p *httpPools) Take(ctx context.Context, client, pool int, ttl, wait time.Duration) (Held, error) {
	var lease struct {
		Lease     uuid.UUID `json:"lease"`
		ExpiresIn int64     `json:"expires_in"`
	}
	if err := p.ask(ctx, client, p.borrow(pool, ttl, wait), &lease); err != nil {
		return Held{}, err
	}
	return Held{lease: lease.Lease, Ends: time.Now().Add(time.Duration(lease.ExpiresIn) * time.Second)}, nil
}

func (p *httpPools) Give(ctx context.Context, client, pool int, held Held) error {
	var answer wire.Returned
	body := wire.Return.Body(&wire.Params{LeaseID: held.lease})
	err := p.ask(ctx, client, p.to.request("POST", p.path(pool, "/return"), "", body), &answer)
	if err == nil && !answer.Returned {
		return errNotReturned
	}
	return err
}

func (p *httpPools) Queue(ctx context.Context, pool int) (leave func() error, err error) {
	return p.queue(ctx, func(int) []byte { return p.borrow(pool, longTTL, longWait) })
}

func (p *httpPools) Close(ctx context.Context) error { return p.closeAll(ctx, p.clientPools) }
