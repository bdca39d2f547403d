package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/clock"
)

const (
	// headerTimeout bounds the time of a TLS handshake and of a request's header. It
	// begins with the connection or, of later requests, with the first byte.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute

	maxHeader   = 16 << 10 // bytes
	headerSlack = 4 << 10  // that net/http adds to MaxHeaderBytes

	shutdownTimeout = 10 * time.Second // Config.ShutdownTimeout when it is 0

	// answerGrace is the time for answering requests whose work was given up.
	answerGrace = time.Second
)

func (g *Gateway) newServer() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Handler().ServeHTTP(w, r) }),
		ConnContext:       withConn,
		ConnState:         g.connections.changed,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader - headerSlack,
		ErrorLog:          log.New(&errorLog{log: g.log, accepting: rate.Sometimes{Interval: acceptErrorEvery}}, "", 0),
		// The router answers "OPTIONS *", too, so that the answer is in JSON.
		DisableGeneralOptionsHandler: true,
	}
}

// Serve serves connections of ln, with Config.TLS if it is set, until Drain closes ln, or
// ln fails. After Drain has closed ln, Serve returns nil, before Drain itself returns.
func (g *Gateway) Serve(ln net.Listener) error {
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

// Drain stops the gateway. It answers 503 to waiting and new borrows and to /ready at
// once, and serves all other requests for Config.DrainWait, or until ctx ends. Then it
// closes the listener, and waits for pending requests and Config.Finishers, for up to
// Config.ShutdownTimeout. After that the Finishers give up their work, so that its requests
// are answered, and Drain closes the connections of all other requests and returns an
// error.
func (g *Gateway) Drain(ctx context.Context) error {
	g.cfg.Lending.Stop()
	clock.Sleep(ctx, g.cfg.DrainWait)

	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.ShutdownTimeout)
	defer cancel()
	shut, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	finished := make(chan struct{})
	go func() {
		for _, f := range g.opened.Load().Finishers {
			f.Finish(limit)
		}
		close(finished)
		<-limit.Done()
		clock.Sleep(shut, answerGrace)
		giveUp()
	}()
	g.connections.settle(shut)
	err := g.server.Shutdown(shut)
	<-finished
	switch {
	case err == nil:
		return nil
	case shut.Err() != nil: // err only says that the context has ended
		err = fmt.Errorf("HTTP: requests were cut short that had not been answered within %s", g.cfg.ShutdownTimeout)
	}
	return errors.Join(err, g.server.Close())
}

// mayBeFramedTwice reports whether a proxy may have taken the body of a request to end
// elsewhere, and so a part of it for the next request, or the next request for a part of it
// (RFC 9112, sections 6.1 and 11.2): the connection must be closed after the answer. Such a
// request has both Content-Length and Transfer-Encoding, or is of HTTP/1.0 with
// Transfer-Encoding. net/http does not show the header that it ignores, Content-Length or that
// of HTTP/1.0, so all requests of HTTP/1.0 and all with Transfer-Encoding count.
func mayBeFramedTwice(r *http.Request) bool {
	return !r.ProtoAtLeast(1, 1) || len(r.TransferEncoding) > 0
}

// prepare sets the headers of the answer, the address of a client behind a proxy, and the
// deadline of the request's body, which applies to refused requests, too. While the gateway
// drains, each answer closes its connection: a client that keeps the connection could lose
// a request when the gateway closes it.
func (g *Gateway) prepare(w http.ResponseWriter, r *http.Request) {
	if g.cfg.Lending.Stopped() || mayBeFramedTwice(r) {
		w.Header().Set("Connection", "close")
	}
	setHeaders(w.Header(), r)
	if len(g.cfg.TrustedProxies) > 0 {
		r.RemoteAddr = trustedProxies(g.cfg.TrustedProxies).remoteAddr(r)
	}
	jsonhttp.LimitBodyTime(w, r, bodyTimeout)
}

// errorLog receives net/http's log lines about connections.
type errorLog struct {
	log       *slog.Logger
	accepting rate.Sometimes
}

// acceptErrorEvery is how often the gateway logs that no connection can be accepted.
// net/http tries again, and says so, once a second or more often.
const acceptErrorEvery = 10 * time.Second

func (l *errorLog) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, []byte("http: Accept error")) {
		l.log.LogAttrs(context.Background(), slog.LevelDebug, "http server", slog.String("detail", string(line)))
		return len(line), nil
	}
	l.accepting.Do(func() {
		l.log.Warn("no connection can be accepted; if too many files are open, raise their limit or lower --max-connections",
			"detail", string(bytes.TrimSpace(line)))
	})
	return len(line), nil
}

// headersOfAll are the headers of every answer that a browser may show; the first is that of all others, too.
// Paths and answers contain credentials, so caches must not store answers, and web pages must not pass paths on
// as referrers. Browsers must not guess the type of an answer, nor show it within a page of another origin, which
// could learn from that what is held.
var headersOfAll = []struct {
	name  string
	value []string // allocated once
}{
	{"Cache-Control", []string{"no-store"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
}

func setHeaders(header http.Header, r *http.Request) {
	all := headersOfAll
	if !mayBeOfBrowser(r) {
		all = all[:1] // four more took 24 of the 345 allocations of a borrow and its return
	}
	for _, h := range all {
		header[h.name] = h.value
	}
}

// mayBeOfBrowser reports whether a browser may have sent a request. Browsers say where a request comes from that
// may write, as http.CrossOriginProtection relies on.
func mayBeOfBrowser(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil
}
