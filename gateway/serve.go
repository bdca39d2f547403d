package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10 // bytes

	shutdownTimeout = 10 * time.Second // Config.ShutdownTimeout when it is 0

	// answerGrace is for the answers to what was given up by then.
	answerGrace = time.Second
)

func (g *Gateway) newServer() *http.Server {
	return &http.Server{
		Handler:           g.Handler(),
		ConnContext:       jsonhttp.WithConn,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(errorLog{g.log}, "", 0),
		// "OPTIONS *" is answered by the router, in JSON like the rest.
		DisableGeneralOptionsHandler: true,
	}
}

// Serve answers on ln, with Config.TLS if it is set, and closes ln when Drain is called
// or the listener fails. It returns nil after a Drain, which returns later.
func (g *Gateway) Serve(ln net.Listener) error {
	if g.cfg.TLS != nil {
		ln = tls.NewListener(ln, g.cfg.TLS)
	}
	if err := g.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain ends Serve in an orderly way. Borrows, waiting ones and new ones, are
// answered 503 at once, and /ready says so; all else goes on as usual for
// Config.DrainWait, or until ctx ends, which only makes haste. Then the
// listener closes, and Drain returns when the requests under way are answered.
// They have Config.ShutdownTimeout for that; work that Config.Finishers have under way is
// given up then, and answered as such.
func (g *Gateway) Drain(ctx context.Context) error {
	g.log.Info().Dur("wait_ms", g.cfg.DrainWait).Msg("draining")
	g.cfg.Lending.Stop()
	pause(ctx, g.cfg.DrainWait)

	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.ShutdownTimeout)
	defer cancel()
	shut, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, f := range g.cfg.Finishers {
			f.Finish(limit)
		}
	}()
	go func() {
		<-finished
		<-limit.Done()
		pause(shut, answerGrace)
		giveUp()
	}()
	err := g.server.Shutdown(shut)
	<-finished
	switch {
	case err == nil:
		return nil
	case shut.Err() != nil: // err says no more than that
		err = fmt.Errorf("HTTP: requests were cut short that had not been answered within %s", g.cfg.ShutdownTimeout)
	}
	return errors.Join(err, g.server.Close())
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// prepare sets the headers of the answer and bounds the time of the request's body, even
// if the request is refused. While the gateway drains, each answer closes its
// connection: a client that keeps the connection would lose a request when the gateway
// closes it.
func (g *Gateway) prepare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.cfg.Lending.Stopped() {
			w.Header().Set("Connection", "close")
		}
		setHeaders(w.Header())
		jsonhttp.LimitBodyTime(w, r, bodyTimeout)
		next.ServeHTTP(w, r)
	})
}

// errorLog takes what net/http has to say about connections.
type errorLog struct{ log zerolog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	l.log.Debug().Bytes("detail", line).Msg("http server")
	return len(line), nil
}
