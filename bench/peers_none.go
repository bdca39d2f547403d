//go:build !peers

package bench

import (
	"context"
	"errors"
)

// errNoPeers is returned by a build without the tag peers. The clients of etcd and Redis
// would be more than a third of the program.
var errNoPeers = errors.New("bench: this kvslots was built without the clients of the peers; use make bench or make bench-peers, or build with -tags peers")

// PeerStatus returns the error of a build without the tag peers.
func PeerStatus() ([]string, error) { return nil, errNoPeers }

func (e *Environment) startPeers(context.Context) []baseline { return nil }
