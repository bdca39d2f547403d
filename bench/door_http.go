package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// httpDoor is /l of a gateway.
type httpDoor struct {
	to   endpoint
	hold holder
}

func (d httpDoor) Name() string { return doorHTTP }

func (d httpDoor) Pools(ctx context.Context, pools, slots, clients int) (Pools, error) {
	p := &httpPools{httpClients: newHTTPClients(d.to, clients), hold: d.hold, ids: make([]uuid.UUID, pools)}
	body := fmt.Appendf(nil, `{"count": %d}`, slots)
	err := p.inTurns(pools, func(conn *httpConn, i int) error {
		p.ids[i] = uuid.New()
		_, err := conn.do(ctx, d.to.request("PUT", p.path(i, ""), "", body))
		return err
	})
	return p, err
}

func (d httpDoor) Named(context.Context, int, int) (Pools, error) { return nil, errors.ErrUnsupported }

// httpClients are the connections of a measurement's clients.
type httpClients struct {
	to    endpoint
	conns []httpConn // by client
}

func newHTTPClients(to endpoint, clients int) httpClients {
	c := httpClients{to: to, conns: make([]httpConn, clients)}
	for i := range c.conns {
		c.conns[i].to = to
	}
	return c
}

// inTurns does something n times, on up to 64 connections at once of its own.
func (c httpClients) inTurns(n int, do func(conn *httpConn, i int) error) error {
	idle := make(chan *httpConn, 64)
	for range cap(idle) {
		idle <- &httpConn{to: c.to}
	}
	err := forEach(n, func(i int) error {
		conn := <-idle
		defer func() { idle <- conn }()
		return do(conn, i)
	})
	for range cap(idle) {
		(<-idle).close()
	}
	return err
}

func (c httpClients) close() {
	for i := range c.conns {
		c.conns[i].close()
	}
}

// ask sends a client's request and reads the answer into answer, unless that is
// nil.
func (c httpClients) ask(ctx context.Context, client int, request []byte, answer any) error {
	body, err := c.conns[client].do(ctx, request)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// httpPools are registered pools.
type httpPools struct {
	httpClients
	hold holder
	ids  []uuid.UUID
}

func (p *httpPools) path(pool int, operation string) string {
	return "/l/" + p.ids[pool].String() + operation
}

func (p *httpPools) borrow(pool int, ttl, wait time.Duration) []byte {
	body := fmt.Appendf(nil, `{"ttl": %d, "wait": %d}`, int(ttl.Seconds()), int(wait.Seconds()))
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
	var answer struct {
		Returned bool `json:"returned"`
	}
	body := []byte(`{"lease": "` + held.lease.String() + `"}`)
	err := p.ask(ctx, client, p.to.request("POST", p.path(pool, "/return"), "", body), &answer)
	if err == nil && !answer.Returned {
		return errNotReturned
	}
	return err
}

func (p *httpPools) Waiting(ctx context.Context, pool int) (int, error) {
	var state struct {
		Waiting int `json:"waiting"`
	}
	err := p.ask(ctx, 0, p.to.request("GET", p.path(pool, ""), "", nil), &state)
	return state.Waiting, err
}

func (p *httpPools) Queue(ctx context.Context, pool int) (leave func(), err error) {
	requests := make([][]byte, len(p.conns))
	for i := range requests {
		requests[i] = p.borrow(pool, longTTL, longWait)
	}
	return p.hold(ctx, p.to, requests)
}

func (p *httpPools) Close(ctx context.Context) error {
	p.close()
	return p.inTurns(len(p.ids), func(conn *httpConn, i int) error {
		_, err := conn.do(ctx, p.to.request("DELETE", p.path(i, ""), "", nil))
		return err
	})
}
