package natsembed

import (
	"fmt"
	"slices"
	"strings"
)

// Missing returns the names of the nodes that this one is not connected with, sorted.
func (s *Server) Missing() (names []string) {
	if s.routes == nil {
		return nil
	}
	connected := append(s.connected(), s.cfg.Cluster.Self)
	for _, name := range s.cfg.Cluster.list() {
		if !slices.Contains(connected, name) {
			names = append(names, name)
		}
	}
	return names
}

// Majority returns what Lack has returned within about the last second.
func (s *Server) Majority() error {
	if lack := s.nodes.Load(); lack != nil {
		return *lack
	}
	return nil
}

// Lack returns nil if the cluster can serve, as far as this node knows: it has had a leader since this node's start, and most
// nodes are connected with this one. Without a leader of the cluster itself entries are still written. Otherwise it says who is
// missing. Without a cluster it returns nil.
func (s *Server) Lack() error {
	if s.routes == nil {
		return nil
	}
	lack := s.findLack()
	s.nodes.Store(&lack)
	return lack
}

func (s *Server) findLack() error {
	if info, err := s.nats().Jsz(nil); err == nil && info.Meta != nil && info.Meta.Leader != "" {
		s.formed.Store(true)
	}
	missing, all := s.Missing(), len(s.cfg.Cluster.Nodes)
	lack := fmt.Errorf("%d of %d nodes are missing: %s", len(missing), all, strings.Join(missing, ", "))
	switch {
	case s.formed.Load() && len(missing) <= all/2:
		return nil
	case s.formed.Load():
		return lack
	case len(missing) == 0:
		return fmt.Errorf("the %d nodes elect a leader, which takes 4 to 9 s", all)
	}
	return fmt.Errorf("%w; the first start needs all of them, later ones most of them", lack)
}
