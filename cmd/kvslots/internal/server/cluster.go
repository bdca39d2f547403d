package server

import (
	"context"
	"time"
)

const (
	nodesPoll  = 100 * time.Millisecond
	nodesEvery = 10 * time.Second // how often the log says who is missing
)

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
