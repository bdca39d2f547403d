package main

import (
	"math"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/natsembed"
)

// addLimitFlags declares the flags of the limits of one gateway, and of the lines of pools.
func (s *settings) addLimitFlags(flags *pflag.FlagSet) {
	flags.Var(number(&s.maxConnections, 0, math.MaxInt32), "max-connections", "maximum of HTTP connections; 0 means what the limit of open files allows")
	flags.Var(number(&s.maxConnectionsPerIP, 0, math.MaxInt32), "max-connections-per-ip", "maximum of HTTP connections of each client address; 0 means no limit")
	flags.Var(number(&s.waits.Total, 0, math.MaxInt32), "max-waiters-total", "maximum of requests that wait at this gateway; 0 means no limit")
	flags.Var(number(&s.store.MaxPoolWaiters, 0, math.MaxInt32), "max-waiters-per-pool", "maximum of requests that wait for each pool; 0 means no limit")
	flags.Var(number(&s.waits.PerIP, 0, math.MaxInt32), "max-waiters-per-ip", "maximum of requests of each client address that wait at this gateway; 0 means no limit")
}

// lockShares are the shares of --max-locks.
type lockShares struct{ perSession, perIP share }

const (
	// filesReserve is how many files are kept for the store, NATS and logs.
	filesReserve = 256

	// unknownFilesLimit stands for the limit of open files where that is unknown.
	unknownFilesLimit = 1 << 14

	// maxConnectionsByFiles bounds the default where the number of files does not: a
	// connection takes some 20 kB of memory.
	maxConnectionsByFiles = 1 << 17
)

func (s *settings) connections() int {
	if s.maxConnections > 0 {
		return s.maxConnections
	}
	return connectionsFor(openFilesLimit())
}

// connectionsFor returns how many connections a process may accept that may open so many
// files. The store fails when it cannot open a file, so connections take half of what is
// left beside a reserve; the other half is for NATS clients.
func connectionsFor(files uint64) int {
	reserve := min(filesReserve, files/2)
	return int(min((files-reserve)/2, maxConnectionsByFiles))
}

// natsConnections returns the maximum of NATS clients. Clients that are not authenticated
// yet are among them, and open a file each, too.
func (s *settings) natsConnections() int {
	if s.natsMaxConns > 0 {
		return s.natsMaxConns
	}
	return min(natsembed.DefaultMaxConnections, connectionsFor(openFilesLimit()))
}

func (s *settings) proxies() []netip.Prefix {
	var found []netip.Prefix
	for _, entry := range splitList(s.httpProxies) {
		if network, err := parseNetwork(entry); err == nil { // was checked when the flag was set
			found = append(found, network)
		}
	}
	return found
}
