package natsclient

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/client"
)

// Dial connects to NATS until ctx ends, and returns a client for the gateways there. The errors are those of
// nats.Connect, and context.Cause(ctx). Config.TLS and HTTP are not used; the options are for the connection.
func Dial(ctx context.Context, url string, cfg client.Config, options ...nats.Option) (*client.Client, error) {
	n := &overNATS{connect: func() (*nats.Conn, error) { return nats.Connect(url, options...) }, token: cfg.Token}
	if _, err := n.connected(ctx); err != nil {
		n.Close()
		return nil, err
	}
	return client.Over(n, cfg), nil
}

// New returns a client that uses an existing connection, and sends nothing. The
// connection must be in the account of the gateways. Its inbox prefix must be one to
// which gateways reply: _INBOX, _INBOX_<anything>, or what their flag
// --nats-reply-prefixes names. It must be allowed to publish to kvslots.> (at least to
// the subjects of the gateways, and below kvslots.confirm).
func New(nc *nats.Conn, cfg client.Config) *client.Client {
	return client.Over(&overNATS{nc: nc, token: cfg.Token}, cfg)
}

// Connecting returns a client that connects to NATS when it sends its first request. An error of connect is
// that of the call; a *client.Unanswered is temporary. Close closes the connection.
func Connecting(connect func() (*nats.Conn, error), cfg client.Config) *client.Client {
	return client.Over(&overNATS{connect: connect, token: cfg.Token}, cfg)
}
