package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Key identifies a row.
type Key struct {
	Workload  string `json:"workload"`
	Transport string `json:"transport"`         // or the name of a Baseline
	Sync      string `json:"sync,omitempty"`    // always or interval; for a Baseline, its own term for its durability
	Clients   int    `json:"clients,omitempty"` // number of operations in flight
	Size      int    `json:"size,omitempty"`    // number of pools, waiters, slots or whatever the workload varies
}

func (k Key) String() string {
	parts := []string{k.Workload, k.Transport}
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

type Case struct {
	Key Key

	// Once means that the case is measured only once, since it takes long and
	// hardly varies.
	Once bool

	// Measure measures for about d, and cleans up everything but markers. It
	// returns an error if nothing could be measured.
	Measure func(ctx context.Context, d time.Duration) (Sample, error)
}

type workload struct {
	name string // in --workload and in rows

	// cases returns the cases to measure in turn. It starts the servers that they need.
	cases func(ctx context.Context, env *environment) ([]Case, error)
}

const (
	pairs       = "pairs"
	sharedPool  = "shared-pool"
	lastSlot    = "last-slot"
	handover    = "handover"
	arrivals    = "arrivals"
	namedOnce   = "named-once"
	namedHot    = "named-hot"
	manyPools   = "many-pools"
	manyWaiters = "many-waiters"
	expiry      = "expiry"
)

// workloads returns all workloads in the order in which they run.
func workloads() []workload {
	return []workload{
		{pairs, pairsCases}, {sharedPool, sharedPoolCases}, {lastSlot, lastSlotCases}, {handover, handoverCases},
		{arrivals, arrivalsCases}, {namedOnce, namedOnceCases}, {namedHot, namedHotCases},
		{manyPools, manyPoolsCases}, {manyWaiters, manyWaitersCases}, {expiry, expiryCases},
	}
}

// WorkloadNames returns the valid values of Config.Workloads.
func WorkloadNames() []string {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.name)
	}
	return names
}
