package natsembed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
	"github.com/kvslots/kvslots/natsembed/listener"
)

// Sync is when writes reach the disk.
type Sync string

const (
	// SyncAlways flushes each write before the server acknowledges it. Acknowledged
	// writes survive a power cut.
	SyncAlways Sync = "always"

	// SyncGroup flushes many writes at once, after the server has acknowledged them.
	// A write survives a power cut once Flusher.Durable has called back. Where group
	// flushing is not possible, the server runs with SyncAlways: see Server.Sync.
	SyncGroup Sync = flush.Mode

	// SyncInterval flushes once a second. A power cut may lose the acknowledged
	// writes of the last second. A killed process loses nothing.
	SyncInterval Sync = "interval"
)

// Config configures the embedded server.
type Config struct {
	// DataDir is the directory of the JetStream storage and the lock file. Start
	// creates it if it does not exist. A relative path starts at the working
	// directory. Only one process at a time can use a data directory.
	DataDir string

	// Sync is SyncAlways when empty.
	Sync Sync

	// Cluster, if it is set, makes the server a node of a cluster. Its writes are flushed before they are acknowledged, on
	// most nodes: Sync may be SyncAlways or SyncGroup, which are the same then.
	Cluster *Cluster

	// MaxStore is how many bytes the entries of the streams may take before Server.Room
	// returns an error; the server itself accepts more. 0 means that the disk is the only
	// limit.
	MaxStore int64

	// Addr is the host:port on which the server accepts clients; port 0 picks a
	// free one. "" means no listener: only connections within the process reach
	// the server. Clients of the listener share an account without JetStream, in
	// which they may only send requests to services.
	Addr string

	// User and Password, Token, and Nkeys (public keys of users) are credentials
	// for the listener. A client needs one of the credentials that are set. If none is
	// set, the listener accepts every client.
	User, Password string
	Token          string
	Nkeys          []string

	// MaxConnections bounds the connections of clients and services to the listener's
	// account. 0 means DefaultMaxConnections.
	MaxConnections int

	// MaxConnectionsPerIP bounds those of the clients at each address: an IPv4 address, or
	// the /64 of an IPv6 address. 0 means no limit.
	MaxConnectionsPerIP int

	// Functions configures the clients that serve functions.
	Functions Functions

	// TLSCert and TLSKey name PEM files, which must be regular files; if they are set, the listener accepts TLS
	// only. TLSCA names a PEM file of certificate authorities; if it is set,
	// clients need a certificate from one of them.
	TLSCert, TLSKey, TLSCA string

	// Insecure allows a listener that other machines can reach and that accepts
	// clients without credentials.
	Insecure bool

	// Local opens a socket in DataDir through which other processes of the same user
	// reach the server: see Dial.
	Local bool

	// Flushed, if it is set, is called after each flush of SyncGroup for which callers
	// of Durable waited, with their number. It must not block.
	Flushed func(took time.Duration, callers int)

	// Logger receives nats-server's log lines. Notices are logged at debug level.
	// nil means no log.
	Logger *slog.Logger
}

// ErrOpenListener is returned when other machines could reach the listener and the
// listener would accept every client.
var ErrOpenListener = errors.New("a listener that other machines can reach needs authentication")

// Validate returns an error if the configuration is invalid. Start calls it first.
// Errors contain no password and no token.
func (c Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("no data directory given")
	}
	switch c.Sync {
	case "", SyncAlways, SyncGroup, SyncInterval:
	default:
		return fmt.Errorf("sync must be %q, %q or %q", SyncAlways, SyncGroup, SyncInterval)
	}
	if c.Cluster != nil {
		if err := c.Cluster.Validate(c.Sync); err != nil {
			return err
		}
	}
	host, _, err := c.listen()
	if err != nil {
		return err
	}
	if err := errors.Join(c.validateAuth(), c.validateFunctions(), c.limits().Validate()); err != nil {
		return err
	}
	if c.Addr != "" && !isLoopback(host) && !c.authenticates() && !c.Insecure {
		return ErrOpenListener
	}
	return nil
}

// DefaultMaxConnections is Config.MaxConnections when it is 0.
const DefaultMaxConnections = listener.DefaultMaxConnections

func (c Config) limits() listener.Limits {
	return listener.Limits{MaxConnections: c.MaxConnections, MaxConnectionsPerIP: c.MaxConnectionsPerIP}
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
		return errors.New("NATS client certificates need TLS: give a certificate and a key")
	}
	for _, key := range c.Nkeys {
		if !nkeys.IsValidPublicUserKey(key) {
			return errors.New("NATS nkeys must be public keys of users, which begin with U")
		}
	}
	return nil
}

func (c Config) asksForSecret() bool { return c.User != "" || c.Token != "" || len(c.Nkeys) > 0 }

// authenticates reports whether clients must authenticate. TLS without client
// certificates encrypts, and accepts every client.
func (c Config) authenticates() bool { return c.asksForSecret() || c.TLSCA != "" }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listen splits Addr for nats-server's options, in which port -1 means a port that
// the kernel picks, and 0 means 4222.
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
