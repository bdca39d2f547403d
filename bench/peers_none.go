//go:build !peers

package bench

import (
	"context"
	"errors"
)

// errNoPeers is returned where peers are asked for. The clients of etcd and Redis would
// be more than a third of a program that mostly serves.
var errNoPeers = errors.New("bench: this kvslots was built without the clients of the peers; use make bench or make bench-peers, or build with -tags peers")

// PeerStatus returns the error of a build without the peers.
func PeerStatus() ([]string, error) { return nil, errNoPeers }

func (e *Environment) startPeers(context.Context) []rival { return nil }
