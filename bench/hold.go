package bench

import (
	"context"
	"net"
)

// Holder sends each request on a connection of its own and keeps the connections
// open, unread, until leave is called.
type Holder func(ctx context.Context, to Endpoint, requests [][]byte) (leave func(), err error)

func Hold(ctx context.Context, to Endpoint, requests [][]byte) (leave func(), err error) {
	conns := make([]net.Conn, len(requests))
	leave = func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}
	err = forEach(len(requests), func(i int) (err error) {
		if conns[i], err = to.dial(ctx); err != nil {
			return err
		}
		_, err = conns[i].Write(requests[i])
		return err
	})
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}
