package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
)

// startRetry is the pause between attempts to reach an external NATS server.
const startRetry = 250 * time.Millisecond

// natsAbsent returns a reason if no NATS server has answered. A server that refuses the
// connection of a client is not absent.
func natsAbsent(err error) (reason string) {
	var failed *net.OpError // a DNSError is wrapped in one
	if errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &failed) {
		return "NATS does not answer yet"
	}
	return ""
}

// standby serves the listener while the store cannot be opened yet: /health reports that
// the process runs, /ready why it is not ready, and other requests are answered 502.
type standby struct {
	ln      *net.TCPListener
	config  gateway.Config
	manager *serviceManager
	log     *slog.Logger

	reason atomic.Pointer[string]
	gw     *gateway.Gateway // nil before it serves
	lent   *lentListener
	served chan error
}

func newStandby(ln *net.TCPListener, config gateway.Config, manager *serviceManager, log *slog.Logger) *standby {
	w := &standby{ln: ln, config: config, manager: manager, log: log}
	w.config.Store, w.config.Dialects = w, []gateway.Dialect{gateway.Unavailable{}}
	return w
}

func (w *standby) Ready() error { return errors.New(*w.reason.Load()) }

func (w *standby) ID() string { return "" }

// await calls open until it succeeds, or fails with an error for which passing returns no
// reason. Until then the standby serves. The caller has to stop it.
func (w *standby) await(ctx context.Context, what string, passing func(error) (reason string), open func() error) error {
	for said := false; ; said = true {
		err := open()
		if err == nil || passing(err) == "" {
			return err
		}
		reason := passing(err)
		w.reason.Store(&reason)
		if !said {
			w.log.Warn("waiting for "+what, "http", w.ln.Addr().String(), "error", err)
			w.manager.notify("STATUS=waiting for " + what)
			w.serve()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startRetry):
		}
	}
}

func (w *standby) serve() {
	if w.gw != nil {
		return
	}
	w.gw, w.lent, w.served = gateway.New(w.config), &lentListener{TCPListener: w.ln}, make(chan error, 1)
	go func() { w.served <- w.gw.Serve(w.lent) }()
}

// stop waits for the requests in progress, and leaves the listener open. It may be called
// more than once.
func (w *standby) stop() error {
	if w.gw == nil || w.lent.closed.Load() {
		return nil
	}
	return errors.Join(closing(w.gw.Drain), <-w.served, w.ln.SetDeadline(time.Time{}))
}

// lentListener is a listener whose Close ends Accept but leaves the TCP listener open
// for the next server.
type lentListener struct {
	*net.TCPListener
	closed atomic.Bool
}

// Close sets a deadline in the past, which makes Accept return.
func (l *lentListener) Close() error {
	l.closed.Store(true)
	return l.TCPListener.SetDeadline(time.Unix(1, 0))
}
