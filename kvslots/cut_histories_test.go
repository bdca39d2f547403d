//go:build unix

package kvslots

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// nothingLeft waits until no lease, no place in line and no session is left.
func (s *cutSoak) nothingLeft(histories []*history) {
	t := s.t
	var stores []*Store
	for _, store := range s.stores {
		stores = append(stores, store.Store)
	}
	all := &history{t: t, pools: append(slices.Clone(s.pools), s.probes)}
	for _, h := range histories {
		all.pools = append(all.pools, h.pools...)
	}
	nothingHeld(t, stores)
	nothingLeft(t, all, stores)
}

// checkCutHistories checks the history of each pool of each round by itself.
func checkCutHistories(t *testing.T, histories []*history) {
	t.Helper()
	results := map[porcupine.CheckResult]int{}
	operations := 0
	for round, h := range histories {
		laterEffects(h.ops)
		tightenPools(h.ops)
		for _, part := range modelOfPools.Partition(h.ops) {
			operations += len(part)
			result := porcupine.CheckOperationsTimeout(modelOfPools, part, *checkTime/5)
			if results[result]++; result == porcupine.Illegal {
				t.Errorf("the history of round %d, which began at %s, is not linearizable:\n%s", round, timeOfDay(h.start), explain(part))
			}
		}
	}
	t.Logf("histories of pools: %v, with %d operations", results, operations)
}

// laterEffects has calls of unknown outcome take effect at any later time.
func laterEffects(ops []porcupine.Operation) {
	var end int64
	for _, op := range ops {
		if op.Input.(input).kind != opExpire {
			end = max(end, op.Return)
		}
	}
	for i := range ops {
		op := &ops[i]
		switch op.Input.(input).kind {
		case opRegister, opDelete, opReturn:
			if op.Output.(output).outcome == unknown {
				op.Return = end
			}
		}
	}
}
