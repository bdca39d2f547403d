package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Key tells rows apart.
type Key struct {
	Workload string `json:"workload"`
	Door     string `json:"door"`              // or the limit, or the peer
	Sync     string `json:"sync,omitempty"`    // always, interval; of a peer, its durability in its own words
	Clients  int    `json:"clients,omitempty"` // how many operations are in flight at once
	Size     int    `json:"size,omitempty"`    // of what the workload varies: pools, waiters, slots
}

func (k Key) String() string {
	parts := []string{k.Workload, k.Door}
	if k.Sync != "" {
		parts = append(parts, k.Sync)
	}
	if k.Clients > 0 {
		parts = append(parts, fmt.Sprintf("%d in flight", k.Clients))
	}
	if k.Size > 0 {
		parts = append(parts, fmt.Sprintf("size %d", k.Size))
	}
	return strings.Join(parts, ", ")
}

// Case is what becomes one row.
type Case struct {
	Key Key

	// Once marks a case that is measured once, since it takes long and hardly
	// varies.
	Once bool

	// Measure sets up, measures for about d, and leaves nothing behind but
	// markers. It fails when nothing could be measured.
	Measure func(ctx context.Context, d time.Duration) (Sample, error)
}

// Workload is a kind of load.
type Workload interface {
	// Name is what --workload and the rows call it.
	Name() string

	// Cases returns what is to be measured in turn. Servers that they need are
	// started here.
	Cases(ctx context.Context, env *Environment) ([]Case, error)
}

// workloads are all, in the order in which they run.
func workloads() []Workload {
	return []Workload{
		pairs{}, sharedPool{}, lastSlot{}, handover{}, arrivals{}, namedOnce{}, namedHot{},
		manyPools{}, manyWaiters{}, expiry{},
	}
}

// WorkloadNames are the names that Config.Workloads may have.
func WorkloadNames() []string {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.Name())
	}
	return names
}

// DoorNames are the names that Config.Doors may have.
func DoorNames() []string { return slices.Clone(doorNames) }
