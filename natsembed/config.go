package natsembed

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

// Sync says when a write reaches the disk.
type Sync string

const (
	// SyncAlways flushes every write before it is acknowledged: what was
	// acknowledged survives a power cut.
	SyncAlways Sync = "always"

	// SyncGroup flushes many writes at once, and acknowledges before it does: what
	// was acknowledged survives a power cut once Flusher.Durable has called back.
	// Where that is not possible the server runs with SyncAlways: see Server.Sync.
	SyncGroup Sync = "group"

	// SyncInterval flushes once a second: a power cut may take the last
	// second's acknowledged writes with it. A killed process loses nothing.
	SyncInterval Sync = "interval"
)

// Config says how to run the embedded server.
type Config struct {
	// DataDir holds the JetStream storage and the lock file; it is created
	// when it does not exist. A relative path is taken from the working
	// directory. One process at a time may use it.
	DataDir string

	// Sync is SyncAlways when empty.
	Sync Sync

	// Addr is the host:port on which clients are accepted; port 0 picks a free
	// one. Empty means no listener: only connections within the process reach
	// the server. Clients of the listener live in an account of their own,
	// without JetStream, and may do nothing there but ask services.
	Addr string

	// User and Password, Token, or one of Nkeys (public keys of users) are
	// asked for at the listener; any one that is set will do. Without any,
	// every client is accepted.
	User, Password string
	Token          string
	Nkeys          []string

	// Functions are the clients that serve functions.
	Functions Functions

	// TLSCert and TLSKey are PEM files; with them the listener speaks TLS
	// only. TLSCA is one with the authorities whose client certificates are
	// then asked for.
	TLSCert, TLSKey, TLSCA string

	// Insecure allows a listener that other machines can reach and that asks
	// for nothing.
	Insecure bool

	// Logger takes nats-server's log lines. Its notices come out at debug
	// level. The zero value logs nothing.
	Logger zerolog.Logger
}

// ErrOpenListener is returned when the listener could be reached from other
// machines and would accept every client.
var ErrOpenListener = errors.New("a listener that other machines can reach needs authentication")

// Validate reports what is wrong with the configuration, as Start would before
// it does anything. No error repeats a password or a token.
func (c Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("no data directory given")
	}
	switch c.Sync {
	case "", SyncAlways, SyncGroup, SyncInterval:
	default:
		return fmt.Errorf("sync must be %q, %q or %q", SyncAlways, SyncGroup, SyncInterval)
	}
	host, _, err := c.listen()
	if err != nil {
		return err
	}
	if err := errors.Join(c.validateAuth(), c.validateFunctions()); err != nil {
		return err
	}
	if c.Addr != "" && !isLoopback(host) && !c.authenticates() && !c.Insecure {
		return ErrOpenListener
	}
	return nil
}

func (c Config) validateAuth() error {
	switch {
	case c.Addr == "" && (c.asksForSecret() || c.TLSCert != "" || c.TLSKey != "" || c.TLSCA != ""):
		return errors.New("NATS authentication and TLS need a listener")
	case (c.User == "") != (c.Password == ""):
		return errors.New("NATS user and password go together")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("NATS TLS certificate and key go together")
	case c.TLSCA != "" && c.TLSCert == "":
		return errors.New("NATS client certificates need TLS, that is, a certificate and a key")
	}
	for _, key := range c.Nkeys {
		if !nkeys.IsValidPublicUserKey(key) {
			return errors.New("NATS nkeys must be public keys of users, which begin with U")
		}
	}
	return nil
}

// asksForSecret reports whether clients need a secret.
func (c Config) asksForSecret() bool { return c.User != "" || c.Token != "" || len(c.Nkeys) > 0 }

// authenticates reports whether clients have to authenticate. TLS alone encrypts, but
// accepts all of them.
func (c Config) authenticates() bool { return c.asksForSecret() || c.TLSCA != "" }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listen splits Addr in the way nats-server wants it: -1 is its word for a
// port that the kernel picks, and 0 would mean 4222.
func (c Config) listen() (host string, port int, err error) {
	if c.Addr == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", 0, fmt.Errorf("NATS address: %w", err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, errors.New("NATS address: the port must be a number between 0 and 65535")
	}
	if number == 0 {
		return host, -1, nil
	}
	return host, int(number), nil
}
