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

// Lack returns nil if the cluster can serve, as far as this node knows: it has a leader, and this node is connected with most.
// Otherwise it says who is missing. Without a cluster it returns nil.
func (s *Server) Lack() error {
	if s.routes == nil {
		return nil
	}
	lack := s.findLack()
	s.nodes.Store(&lack)
	return lack
}

func (s *Server) findLack() error {
	missing, all := s.Missing(), len(s.cfg.Cluster.Nodes)
	info, err := s.nats().Jsz(nil)
	formed := err == nil && info.Meta != nil && info.Meta.Leader != ""
	switch {
	case formed && len(missing) <= all/2:
		return nil
	case len(missing) == 0:
		return fmt.Errorf("the %d nodes elect a leader, which takes 4 to 9 s", all)
	case formed:
		return fmt.Errorf("%d of %d nodes are missing: %s", len(missing), all, strings.Join(missing, ", "))
	default:
		return fmt.Errorf("%d of %d nodes are missing: %s; the first start needs all of them, later ones most of them", len(missing), all, strings.Join(missing, ", "))
	}
}
