package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// startRetry is the pause between attempts to reach an external NATS server.
const startRetry = 250 * time.Millisecond

// standby is the store of the gateway while NATS does not answer, or too few nodes of a cluster run.
type standby struct{ why *atomic.Pointer[error] }

var errNoNATS = errors.New("NATS does not answer yet")

func (s standby) Ready() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return errNoNATS
}

func (standby) ID() string { return "" }

// awaitNATS calls dial until NATS answers. Meanwhile the gateway serves: /health reports that the process
// runs, /ready why it is not ready, and other requests are answered 502.
func (s *server) awaitNATS(ctx context.Context, dial func() error) error {
	for {
		err := dial()
		if !natsAbsent(err) {
			return err
		}
		if !s.serving {
			s.log.Warn("waiting for NATS", "http", s.ln.Addr().String(), "error", err)
			s.standBy("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startRetry):
		}
	}
}

// standBy serves HTTP without a store.
func (s *server) standBy(status string) {
	s.manager.notify("STATUS=" + status)
	s.startHTTP()
}

// natsAbsent reports whether no NATS server has answered. A server that refuses the connection of a
// client is not absent.
func natsAbsent(err error) bool {
	var failed *net.OpError // a DNSError is wrapped in one
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &failed)
}
