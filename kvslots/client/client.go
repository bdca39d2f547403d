package client

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
)

// Client sends requests to gateways. Its methods are safe for concurrent use. They
// round durations up to whole seconds.
//
// If a gateway answers with an error, the error is a *wire.Refusal, in which errors.Is
// finds the errors of package kvslots. If no gateway answers, the error is an
// *Unanswered.
type Client struct {
	gateways transport.Transport
	timeout  time.Duration // see Config.Timeout
	label    string        // see Config.Label
	retrying func(error)   // see Config.Retrying
}

var _ kvslots.Service = (*Client)(nil)

// Over returns a Client over a transport. It is for package natsclient.
func Over(gateways transport.Transport, cfg Config) *Client {
	return &Client{gateways: gateways, timeout: cfg.Timeout, label: cfg.Label, retrying: cfg.Retrying}
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

	// Timeout is how long a gateway may take to answer, in addition to the wait of a call; 0 means 2.5 s
	// for calls that wait, and 10 s for others.
	Timeout time.Duration

	// Label is the label of leases and sessions without kvslots.WithLabel; "" means DefaultLabel of this
	// program.
	Label string

	// Retrying, unless nil, is called with the error of a request before the request is repeated, for logs.
	// While a call waits for what an operator has paused, the error is a *kvslots.TakenError with Paused.
	Retrying func(error)
}

// Dial returns a Client for the gateways at a URL, or at several, separated by commas. URLs
// with the scheme http or https are those of gateways, or of a proxy in front of several. A
// request that one does not answer, or refuses with a status of 500 or more, is sent to the
// next one; the next request begins with the one that has answered. Dial sends nothing to them. All must be of one store: see
// ErrTwoStores. The errors are a *kvslots.RangeError for an invalid URL, and context.Cause(ctx). For NATS see package natsclient.
func Dial(ctx context.Context, at string, cfg Config) (*Client, error) {
	s, stores := &servers{}, &transport.Stores{}
	for at := range strings.SplitSeq(at, ",") {
		at = strings.TrimSpace(at)
		if parsed, err := url.Parse(at); err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
			return nil, &kvslots.RangeError{Field: "url", Range: "http://HOST:PORT or https://HOST:PORT; natsclient.Dial takes nats://HOST:PORT"}
		}
		s.all = append(s.all, newHTTPTransport(at, cfg, stores))
	}
	if len(s.all) == 1 {
		return Over(s.all[0], cfg), context.Cause(ctx)
	}
	return Over(s, cfg), context.Cause(ctx)
}

// Close closes the idle HTTP connections, or the NATS connection that natsclient.Dial has made. It
// does not close a connection passed to natsclient.New, but ends the calls that wait there, and does not return leases.
func (c *Client) Close() { c.gateways.Close() }
