// Package client asks gateways for pools, sessions, locks and semaphores, over
// NATS or over HTTP, for programs that may not touch JetStream. Its Client has the
// methods of a kvslots.Store, and returns the same errors.
//
// A Client sees only what gateways answer. Lease.Done is closed at the lease's end
// in time, when its own Return succeeds, and when a renewal is refused, but not when
// another client returns the lease or deletes the pool.
//
// # Giving up
//
// When the context of a call that waits ends, the call returns context.Cause. Over
// NATS the gateway is told, and takes back what it may have granted. Over HTTP the
// connection is closed, and the gateway takes back what it grants from then on; a
// grant whose answer was on its way at that moment stays held until its ttl ends.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
)

// Client asks gateways. Its methods are safe for concurrent use. Durations are
// rounded up to whole seconds.
//
// An error that a gateway has answered with is a *wire.Refusal, in which errors.Is
// finds the errors of package kvslots. When no gateway has answered, the error is an
// *Unanswered.
type Client struct{ gateways transport }

// New returns a Client that asks over a NATS connection, which stays the caller's.
// The connection must be in the account where the gateways answer, and its inbox
// prefix one to which they do: _INBOX, _INBOX_<anything>, or what their flag
// --nats-reply-prefixes names. It must be allowed to publish to kvslots.> (at least
// to the subjects of the gateways, and below kvslots.confirm). Nothing is sent.
func New(nc *nats.Conn) *Client { return &Client{&overNATS{nc: nc}} }

// Config says how Dial reaches gateways. The zero Config is ready for use.
type Config struct {
	// Token is the bearer token of gateways that ask for one over HTTP. It is a
	// secret.
	Token string

	// TLS is for an https URL; nil trusts the authorities of the system. It is not
	// used with HTTP.
	TLS *tls.Config

	// HTTP sends the requests over HTTP; nil means an *http.Client that Dial makes.
	// Redirects are not followed. A Timeout has to be longer than every wait.
	HTTP *http.Client

	// NATS are the options of the connection to NATS, such as nats.UserCredentials.
	NATS []nats.Option
}

// Dial returns a Client of the gateways at a URL. With the scheme http or https the
// URL is that of a gateway, or of a proxy in front of several; nothing is sent. Any
// other URL is one that nats.Connect takes, with its errors. The errors for an HTTP
// URL are a *kvslots.RangeError.
func Dial(at string, cfg Config) (*Client, error) {
	if parsed, err := url.Parse(at); err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") {
		if parsed.Host == "" {
			return nil, &kvslots.RangeError{Field: "url", Range: "such as http://127.0.0.1:8080"}
		}
		return &Client{newOverHTTP(at, cfg)}, nil
	}
	nc, err := nats.Connect(at, cfg.NATS...)
	if err != nil {
		return nil, err
	}
	return &Client{&overNATS{nc: nc, dialled: true}}, nil
}

// Close closes the connection to NATS that Dial has made, or the idle connections of
// HTTP. It does not close a connection given to New, and returns no lease.
func (c *Client) Close() { c.gateways.close() }

// ask sends a request and decodes its answer.
func (c *Client) ask(ctx context.Context, r request, into any) error {
	return c.gateways.ask(ctx, r, func(a answer) error {
		if json.Unmarshal(a.body, into) != nil {
			return ErrNotUnderstood
		}
		return nil
	})
}
