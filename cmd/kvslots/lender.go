package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// lender sends requests to gateways through a client. Its errors are fit to be printed.
type lender struct {
	client *client.Client
	nats   *nats.Conn // nil over HTTP
	at     *settings.Gateway

	// timeout bounds a request, in addition to the wait that it asks for.
	timeout time.Duration
}

// httpTimeout is the timeout over HTTP. A gateway may take up to 30 s to complete a
// request that it has begun.
const httpTimeout = 35 * time.Second

// requestTimeout is the timeout over NATS.
const requestTimeout = 10 * time.Second

// dial connects to a gateway, or to NATS. The caller must close the lender.
func dial(at *settings.Gateway) (*lender, error) {
	if at.NATS.URL != "" {
		nc, err := dialNATS(&at.NATS)
		if err != nil {
			return nil, err
		}
		return &lender{client: client.New(nc).Once(), nats: nc, at: at, timeout: requestTimeout}, nil
	}
	config, err := at.TLS.Config()
	if err != nil {
		return nil, err
	}
	over, err := client.Dial(strings.Join(at.Servers(), ","), client.Config{Token: at.Token.Value, TLS: config})
	if err != nil {
		return nil, err
	}
	return &lender{client: over.Once(), at: at, timeout: httpTimeout}, nil
}

func dialNATS(at *settings.NATS, more ...nats.Option) (*nats.Conn, error) {
	options, err := at.Options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(at.URL, append(options, more...)...)
	if err == nil {
		return nc, nil
	}
	failed := fmt.Errorf("NATS: %s: %w", at.Shown(), settings.WithoutPath(err))
	if unreachable(err) {
		return nil, &client.Unanswered{Err: fmt.Errorf("%w; is --nats-url right, and a server running there?", failed)}
	}
	return nil, failed
}

// unreachable reports whether a connection failed before a server answered.
func unreachable(err error) bool {
	known := []error{nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, io.EOF}
	_, ok := errors.AsType[net.Error](err)
	return ok || slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) })
}

func (l *lender) close() {
	l.client.Close()
	if l.nats != nil {
		l.nats.Close()
	}
}

func (l *lender) register(ctx context.Context, pool uuid.UUID, count int) (poolAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (poolAnswer, error) {
		state, err := l.client.Register(ctx, pool, count)
		return poolAnswer(wire.NewPool(pool, state)), err
	})
}

func (l *lender) inspect(ctx context.Context, pool uuid.UUID) (poolAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (poolAnswer, error) {
		state, err := l.client.Inspect(ctx, pool)
		return poolAnswer(wire.NewPool(pool, state)), err
	})
}

func (l *lender) remove(ctx context.Context, pool uuid.UUID) (deletedAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (deletedAnswer, error) {
		return deletedAnswer{true}, l.client.Delete(ctx, pool)
	})
}

func (l *lender) borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, key kvslots.Option) (leaseAnswer, error) {
	return l.askLease(ctx, wait, func(ctx context.Context) (*kvslots.Lease, error) {
		return l.client.Borrow(ctx, pool, ttl, wait, key)
	})
}

// renew returns errors.ErrUnsupported if the gateway's version cannot renew leases.
func (l *lender) renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (leaseAnswer, error) {
	return l.askLease(ctx, 0, func(ctx context.Context) (*kvslots.Lease, error) {
		return l.client.Renew(ctx, pool, lease, ttl)
	})
}

func (l *lender) giveBack(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (bool, error) { return l.client.TryReturn(ctx, pool, lease) })
}

// askLease performs a call, and converts its lease to an answer. The client has computed
// the beginning of the lease from the gateway's answer.
func (l *lender) askLease(ctx context.Context, wait time.Duration, call func(context.Context) (*kvslots.Lease, error)) (leaseAnswer, error) {
	return ask(ctx, l, wait, func(ctx context.Context) (leaseAnswer, error) {
		sent := time.Now()
		lease, err := call(ctx)
		if err != nil {
			return leaseAnswer{}, err
		}
		answer := leaseAnswer(wire.NewLease(lease))
		answer.Waited = max(lease.ExpiresAt().Add(-lease.TTL()).Sub(sent), 0)
		return answer, nil
	})
}

// ask performs a call. The gateway may take up to wait, in addition to the timeout.
func ask[T any](ctx context.Context, l *lender, wait time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait+l.timeout, client.ErrAnswerTimeout)
	defer cancel()
	if l.nats != nil {
		var stop func()
		ctx, stop = whileConnected(ctx, l.nats)
		defer stop()
	}
	answer, err := call(ctx)
	return answer, l.explain(err)
}

// errDisconnected is the cause when the connection to NATS is lost: the answer cannot
// arrive any more.
var errDisconnected = &client.Unanswered{Err: errors.New("NATS: not connected")}

// whileConnected returns a context that ends when the connection is lost, since a gateway
// that stops together with its NATS server never answers. If there is no connection the
// context has ended already: the client would buffer a request, and send it much later.
// stop must be called.
func whileConnected(ctx context.Context, nc *nats.Conn) (connected context.Context, stop func()) {
	ctx, disconnect := context.WithCancelCause(ctx)
	changes := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	if !nc.IsConnected() {
		disconnect(errDisconnected)
	}
	stopWatching := background.Run(func(stopped context.Context) {
		select {
		case <-changes:
			disconnect(errDisconnected)
		case <-stopped.Done():
		}
	})
	return ctx, func() {
		stopWatching()
		disconnect(nil)
		nc.RemoveStatusListener(changes)
	}
}

// explain returns an error that is fit to be printed, with the flag that may be wrong.
func (l *lender) explain(err error) error {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		refused.Text = printable(refused.Text)
		if hint := l.hint(refused); hint != "" {
			refused.Text = refused.Error() + hint
		}
		return refused
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch unanswered, ok := errors.AsType[*client.Unanswered](err); {
	case errors.Is(err, client.ErrNotUnderstood) && l.nats == nil:
		return errors.New("the answer is not that of a gateway: is --server a kvslots gateway?")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &client.Unanswered{Err: errors.New("the server closed the connection without an answer; is --server right?")}
	case ok && errors.Is(err, syscall.ECONNREFUSED):
		return &client.Unanswered{Err: errors.New(printable(unanswered.Error()) + "; is --server right, and a gateway running there?")}
	case ok:
		return &client.Unanswered{Err: errors.New(printable(unanswered.Error()))}
	case certificate:
		return fmt.Errorf("%w; --tls-ca names the authorities to trust", err)
	case errors.Is(err, client.ErrTLS), errors.Is(err, client.ErrNoTLS):
		return fmt.Errorf("%w: correct --server", err)
	}
	return err
}

// hint returns what may be wrong if a gateway refuses a request so.
func (l *lender) hint(refused *wire.Refusal) string {
	switch {
	case l.nats != nil:
		return ""
	case refused.Text == "" && refused.Status < http.StatusBadRequest:
		return ", a redirect; is --server right?"
	case refused.Status == http.StatusUnauthorized && l.at.Token.Given():
		return "; the token of --auth-token or --auth-token-file is not one of " + l.at.Shown()
	case refused.Status == http.StatusUnauthorized:
		return "; " + l.at.Shown() + " requires a token: give --auth-token-file"
	case errors.Is(refused, errors.ErrUnsupported) && l.at.HasPath():
		return "; --server must be " + l.at.Shown() + ", without a path such as /l"
	}
	return ""
}

// maxText is the maximal length of a server's text in an error, in characters.
const maxText = 200

// printable replaces characters that control a terminal, and cuts long texts: the text
// may come from any server.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}
