package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

const (
	// headerTimeout bounds the time of a handshake and of a request's header, from
	// their first byte or the connection's beginning.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute

	maxHeader   = 16 << 10 // bytes
	headerSlack = 4 << 10  // that net/http adds to MaxHeaderBytes

	shutdownTimeout = 10 * time.Second // Config.ShutdownTimeout when it is 0

	// answerGrace is the time for answers to work that was given up.
	answerGrace = time.Second
)

func (g *Gateway) newServer() *http.Server {
	return &http.Server{
		Handler:           g.Handler(),
		ConnContext:       jsonhttp.WithConn,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader - headerSlack,
		ErrorLog:          log.New(errorLog{g.log}, "", 0),
		// "OPTIONS *" is answered by the router, in JSON like the rest.
		DisableGeneralOptionsHandler: true,
	}
}

// Serve answers on ln, with Config.TLS if it is set, and closes ln when Drain is called
// or the listener fails. It returns nil after a Drain, which returns later.
func (g *Gateway) Serve(ln net.Listener) error {
	defer g.connections.writing.Wait()
	ln = g.connections.limit(ln)
	if g.cfg.TLS != nil {
		ln = tls.NewListener(ln, g.cfg.TLS)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var logging sync.WaitGroup
	logging.Go(func() { g.logReadiness(ctx) })
	defer logging.Wait()
	defer cancel()
	if err := g.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain ends Serve. Waiting and new borrows are answered 503 at once, and so is /ready.
// All other requests are served for Config.DrainWait, or until ctx ends. Then the
// listener closes, and Drain returns when the requests under way are answered. They have
// Config.ShutdownTimeout for that. Then the work of Config.Finishers is given up, and its
// requests are answered accordingly.
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
	case shut.Err() != nil: // err is the end of the context
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

// prepare sets the headers of the answer, the address of a client behind a proxy, and the
// time of the request's body, which also a refused request has. While the gateway drains, each answer closes its
// connection: a client that keeps the connection would lose a request when the gateway
// closes it.
func (g *Gateway) prepare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.cfg.Lending.Stopped() {
			w.Header().Set("Connection", "close")
		}
		setHeaders(w.Header())
		if len(g.cfg.TrustedProxies) > 0 {
			r.RemoteAddr = trustedPeers(g.cfg.TrustedProxies).remoteAddr(r)
		}
		jsonhttp.LimitBodyTime(w, r, bodyTimeout)
		next.ServeHTTP(w, r)
	})
}

// errorLog receives net/http's log lines about connections.
type errorLog struct{ log zerolog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	l.log.Debug().Bytes("detail", line).Msg("http server")
	return len(line), nil
}
