package natsembed

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/rs/zerolog"
)

// Sync says when a write reaches the disk.
type Sync string

const (
	// SyncAlways flushes every write before it is acknowledged: what was
	// acknowledged survives a power cut.
	SyncAlways Sync = "always"

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

	// Addr is the host:port on which clients are let in; port 0 picks a free
	// one. Empty means no listener: only Connect reaches the server. Clients
	// of the listener live in an account of their own, without JetStream.
	Addr string

	// Logger takes nats-server's log lines. Its notices come out at debug
	// level. The zero value logs nothing.
	Logger zerolog.Logger
}

func (c Config) validate() error {
	if c.DataDir == "" {
		return errors.New("no data directory given")
	}
	switch c.Sync {
	case "", SyncAlways, SyncInterval:
	default:
		return fmt.Errorf("sync must be %q or %q", SyncAlways, SyncInterval)
	}
	_, _, err := c.listen()
	return err
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
