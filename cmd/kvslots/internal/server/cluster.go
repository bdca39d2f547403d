package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

const (
	nodesPoll  = 100 * time.Millisecond
	nodesEvery = 10 * time.Second // how often the log says who is missing
)

var errBehind = errors.New("this node's copy is behind the others: wait")

// nodeStore is the store of a gateway whose server may be a node. It is not ready while the node's copy is behind.
type nodeStore struct {
	*kvslots.Store
	server *natsembed.Server // nil when external
}

func (n nodeStore) Ready() error {
	if err := n.Store.Ready(); err != nil || n.server == nil || n.server.IsCurrent() {
		return err
	}
	return errBehind
}

func missingNodes(server *natsembed.Server) prometheus.Collector {
	return metrics.Gauge("kvslots_missing_nodes", "Nodes of the cluster that this one is not connected with; 0 without a cluster.", nil,
		func() float64 {
			if server == nil {
				return 0
			}
			return float64(len(server.Missing()))
		})
}

// awaitNodes waits until enough nodes of the cluster run: at the first start all, later a majority. Meanwhile the gateway
// serves: see standby.
func (s *server) awaitNodes(ctx context.Context) error {
	if !s.settings.Cluster.Given() {
		return nil
	}
	var logged time.Time
	for {
		lack := s.nats.server.Lack()
		if lack == nil {
			return nil
		}
		s.lacks.Store(&lack)
		if !s.serving {
			s.standBy("waiting for the other nodes of the cluster")
		}
		if time.Since(logged) >= nodesEvery {
			s.log.Warn("waiting for the cluster", "http", s.ln.Addr().String(), "node", s.settings.Cluster.Self(), "error", lack)
			logged = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(nodesPoll):
		}
	}
}
