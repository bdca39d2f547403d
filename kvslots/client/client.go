// Package client accesses the pools, sessions, locks and semaphores of gateways, over
// NATS or HTTP, for programs without access to JetStream. Its Client has the methods of
// a kvslots.Store, and returns the same errors.
//
//	c, err := client.Dial(ctx, "http://127.0.0.1:8080", client.Config{})
//	session, err := kvslots.NewSession(ctx, c)
//	defer session.Close(ctx)
//	err = session.With(ctx, "nightly", func(ctx context.Context) error { … }) // under a lock by name
//	err = kvslots.With(ctx, c, pool, do, kvslots.WithWait(10*time.Second))               // with a slot of a pool
//
// Both renew their lease, and end the context of the work before it is lost. For more than one
// function: Session.Mutex and Session.Semaphore, and Lease.KeepAlive.
//
// A Client knows only what gateways answer. Lease.Done is closed when the lease's time
// is over, when Return succeeds on this Client, and when a renewal is refused. Over NATS the
// Client also follows the lease: when another client returns it, or deletes the pool, Done is
// closed at once, and so it is with a Session and a Mutex. If no gateway answers, they notice it
// at the next renewal, as over HTTP; see Client.FollowLease.
//
// # Cancellation
//
// When the context of a waiting call ends, the call returns context.Cause. Over NATS
// the Client informs the gateway, which takes back what it may have granted. Over HTTP
// the Client closes the connection, and sends the request once more, without a wait, so
// that it leaves the line, for a second at most. If that fails, the gateway keeps the place,
// or the slot, for its --resume-grace. It is so with a request key of the caller's, too, unless
// the cause is kvslots.ErrPlaceKept.
//
// # Repeats and timeouts
//
// Borrow and Acquire repeat a request whose answer was lost, or whose gateway has waited for
// its Config.MaxWait, or cannot serve it now, until their wait is over. Each repeat has the same
// request key (see kvslots.WithRequestKey), which the Client makes up if there is none: so it shares
// the place in line, or the lease, of the first. A call with a wait of w ends within w and 3 s, also if a
// gateway accepts the connection and never answers, and at once if a gateway asks for a longer pause than
// what is left of the wait. Return, Release and EndSession are repeated for 10 s, and CreateSession until the deadline of its context, or
// for 3 s. Other calls send one request, whose answer may take 10 s. See
// Config.Timeout. If the program dies while it waits, gateways keep its place for their --resume-grace. Clients in
// other languages promise the same: see kvslots/client/PROMISES.md.
package client

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
)

// Client sends requests to gateways. Its methods are safe for concurrent use. They
// round durations up to whole seconds.
//
// If a gateway answers with an error, the error is a *wire.Refusal, in which errors.Is
// finds the errors of package kvslots. If no gateway answers, the error is an
// *Unanswered.
type Client struct {
	gateways transport
	timeout  time.Duration // see Config.Timeout
	label    string        // see Config.Label
	retrying func(error)   // see Config.Retrying
}

var _ kvslots.Service = (*Client)(nil)

// New returns a Client that uses an existing NATS connection, and sends nothing. The
// connection must be in the account of the gateways. Its inbox prefix must be one to
// which gateways reply: _INBOX, _INBOX_<anything>, or what their flag
// --nats-reply-prefixes names. It must be allowed to publish to kvslots.> (at least to
// the subjects of the gateways, and below kvslots.confirm).
func New(nc *nats.Conn, cfg Config) *Client {
	return cfg.client(&natsTransport{nc: nc, token: cfg.Token})
}

// Connecting returns a Client that connects to NATS when it sends its first request. An error of connect is
// that of the call; an *Unanswered is temporary. Close closes the connection.
func Connecting(connect func() (*nats.Conn, error), cfg Config) *Client {
	return cfg.client(&natsTransport{connect: connect, token: cfg.Token})
}

// Config configures Dial. The zero Config is ready for use.
type Config struct {
	// Token is the bearer token for gateways that require one over HTTP, and of operators over
	// NATS. It is a secret.
	Token string

	// TLS is for an https URL; nil trusts the authorities of the system. It is not
	// used with HTTP.
	TLS *tls.Config

	// HTTP sends the requests over HTTP. Nil means an *http.Client that Dial makes.
	// Redirects are not followed. A Timeout must be longer than every wait.
	HTTP *http.Client

	// NATS contains options for the connection to NATS, such as nats.UserCredentials.
	NATS []nats.Option

	// Timeout is how long a gateway may take to answer, in addition to the wait of a call; 0 means 2.5 s
	// for calls that wait, and 10 s for others.
	Timeout time.Duration

	// Label is the label of leases and sessions without kvslots.WithLabel; "" means DefaultLabel of this
	// program.
	Label string

	// Retrying is called with the error of a request before it is repeated, for logs; nil: it is not.
	Retrying func(error)
}

func (cfg Config) client(gateways transport) *Client {
	return &Client{gateways: gateways, timeout: cfg.Timeout, label: cfg.Label, retrying: cfg.Retrying}
}

// Dial returns a Client for the gateways at a URL, or at several, separated by commas. URLs
// with the scheme http or https are those of gateways, or of a proxy in front of several. A
// request that one does not answer, or refuses with a status of 500 or more, is sent to the
// next one; the next request begins with the one that has answered. Dial sends nothing to
// them, and returns a *kvslots.RangeError for an invalid URL. With the schemes
// nats and tls, Dial connects to NATS until ctx ends, and returns the errors of nats.Connect.
func Dial(ctx context.Context, at string, cfg Config) (*Client, error) {
	switch scheme, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(at)), ":"); scheme {
	case "http", "https":
		return dialHTTP(strings.Split(at, ","), cfg)
	case "nats", "tls", "ws", "wss":
		c := Connecting(func() (*nats.Conn, error) { return nats.Connect(at, cfg.NATS...) }, cfg)
		if _, err := c.gateways.(*natsTransport).connected(ctx); err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, errURL
}

// errURL is returned for a URL that is not one of gateways, nor of NATS.
var errURL = &kvslots.RangeError{Field: "url", Range: "http://HOST:PORT, https://HOST:PORT or nats://HOST:PORT"}

func isHTTP(at *url.URL) bool { return at.Scheme == "http" || at.Scheme == "https" }

func dialHTTP(urls []string, cfg Config) (*Client, error) {
	s := &servers{}
	for _, at := range urls {
		at = strings.TrimSpace(at)
		if parsed, err := url.Parse(at); err != nil || !isHTTP(parsed) || parsed.Host == "" {
			return nil, errURL
		}
		s.all = append(s.all, newHTTPTransport(at, cfg))
	}
	if len(s.all) == 1 {
		return cfg.client(s.all[0]), nil
	}
	return cfg.client(s), nil
}

// Close closes the NATS connection that Dial has made, or the idle HTTP connections. It
// does not close a connection passed to New, and does not return leases.
func (c *Client) Close() { c.gateways.close() }
