// Package client accesses the pools, sessions, locks and semaphores of gateways, over
// NATS or HTTP, for programs without access to JetStream. Its Client has the methods of
// a kvslots.Store, and returns the same errors.
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
// or the slot, for its --resume-grace.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Client sends requests to gateways. Its methods are safe for concurrent use. They
// round durations up to whole seconds.
//
// If a gateway answers with an error, the error is a *wire.Refusal, in which errors.Is
// finds the errors of package kvslots. If no gateway answers, the error is an
// *Unanswered.
//
// Borrow and Acquire repeat a request whose answer was lost, or whose gateway has waited for
// its Config.MaxWait, until their wait is over. Each repeat has the same request key (see
// kvslots.WithRequestKey), which the Client makes up if there is none: so it shares the place
// in line, or the lease, of the first. Without a wait they repeat for some seconds. If the
// program dies while it waits, gateways keep its place for their --resume-grace.
type Client struct {
	gateways transport
	once     bool // see Once
}

var _ kvslots.Service = (*Client)(nil)

// New returns a Client that uses an existing NATS connection, and sends nothing. The
// connection must be in the account of the gateways. Its inbox prefix must be one to
// which gateways reply: _INBOX, _INBOX_<anything>, or what their flag
// --nats-reply-prefixes names. It must be allowed to publish to kvslots.> (at least to
// the subjects of the gateways, and below kvslots.confirm).
func New(nc *nats.Conn) *Client { return &Client{gateways: &natsTransport{nc: nc}} }

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
}

// Dial returns a Client for the gateways at a URL, or at several, separated by commas. URLs
// with the scheme http or https are those of gateways, or of a proxy in front of several. A
// request that one does not answer, or refuses with a status of 500 or more, is sent to the
// next one; the next request begins with the one that has answered. Dial sends nothing to
// them, and returns a *kvslots.RangeError for an invalid URL. Dial passes any other URLs to
// nats.Connect, and returns its errors.
func Dial(at string, cfg Config) (*Client, error) {
	if isHTTP(at) {
		return dialHTTP(strings.Split(at, ","), cfg)
	}
	if !isNATS(at) {
		return nil, &kvslots.RangeError{Field: "url", Range: "http://HOST:PORT, https://HOST:PORT or nats://HOST:PORT"}
	}
	nc, err := nats.Connect(at, cfg.NATS...)
	if err != nil {
		return nil, err
	}
	return &Client{gateways: &natsTransport{nc: nc, dialled: true, token: cfg.Token}}, nil
}

// WithToken returns a Client with the same connections, which sends a token of operators over
// NATS: see Config.Token. It is for a connection passed to New, and has no effect over HTTP.
// Closing it closes c.
func (c *Client) WithToken(token string) *Client {
	if over, ok := c.gateways.(*natsTransport); ok {
		return &Client{gateways: &natsTransport{nc: over.nc, dialled: over.dialled, token: token}, once: c.once}
	}
	return c
}

func isHTTP(at string) bool {
	at = strings.ToLower(strings.TrimSpace(at))
	return strings.HasPrefix(at, "http:") || strings.HasPrefix(at, "https:")
}

// isNATS reports whether at begins with a scheme of nats.go.
func isNATS(at string) bool {
	scheme, _, found := strings.Cut(strings.ToLower(strings.TrimSpace(at)), "://")
	return found && slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme)
}

func dialHTTP(urls []string, cfg Config) (*Client, error) {
	s := &servers{}
	for _, at := range urls {
		at = strings.TrimSpace(at)
		if parsed, err := url.Parse(at); err != nil || !isHTTP(at) || parsed.Host == "" {
			return nil, &kvslots.RangeError{Field: "url", Range: "such as http://127.0.0.1:8080"}
		}
		s.all = append(s.all, newHTTPTransport(at, cfg))
	}
	if len(s.all) == 1 {
		return &Client{gateways: s.all[0]}, nil
	}
	return &Client{gateways: s}, nil
}

// Close closes the NATS connection that Dial has made, or the idle HTTP connections. It
// does not close a connection passed to New, and does not return leases.
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

// transport sends requests to gateways.
type transport interface {
	// ask sends a request and passes the answer to read. If it returns an error, it has
	// informed the gateways, as far as the transport can, so that they take back what
	// they granted. Its errors are a *wire.Refusal, an *Unanswered, ErrNotUnderstood, the
	// cause of ctx, and those of read.
	ask(ctx context.Context, r request, read func(answer) error) error

	// cancel informs the gateways that requests were canceled, which are given by their ids.
	// It reports whether the transport can do so.
	cancel(ids []string) bool

	// events opens a stream of the events after an ID, which has no end of its own. Its errors
	// are those of ask, and errors.ErrUnsupported.
	events(ctx context.Context, query string, after uint64) (io.ReadCloser, error)

	close()
}

// answer is a successful answer of a gateway.
type answer struct {
	body   []byte
	header interface{ Get(name string) string }
}

// waited returns for how long the gateway says that the request waited, which was sent at sent.
func (a answer) waited(sent time.Time) time.Duration {
	ms, _ := strconv.ParseUint(a.header.Get(wire.WaitedHeader), 10, 31)
	return min(time.Duration(ms)*time.Millisecond, time.Since(sent))
}

// request is a request to a gateway.
type request struct {
	wire.Route
	body wire.Request  // with the ids and the key, which HTTP has in the path
	wait time.Duration // how long the gateway may wait before it answers
	key  string        // the request key; "" for none

	// unknown collects the ids of requests with an unknown outcome, which the caller
	// cancels: the next request with the same key may take over what was granted. With
	// nil, ask cancels them itself.
	unknown *[]string

	// operation is a request of an operator, which replaces the body; nil for others.
	operation *operation

	// undo returns the request that gives back what was granted. It is called after the
	// answer was read. It is nil if the request grants nothing.
	undo func() request
}
