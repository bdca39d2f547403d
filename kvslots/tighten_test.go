package kvslots

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The checker tries each operation as early as it can. For an operation whose effect came
// long after its call, it first tries many orders in vain. The functions here shorten the
// times of operations as far as the models require anyway. That changes how long the check
// takes, and not its result.

// tightenPools orders the leases of a position by their fences: each begins after the
// previous one was returned.
func tightenPools(ops []porcupine.Operation) {
	type position struct{ pool, number int }
	granted := map[position][]*porcupine.Operation{}
	returned := map[int]*porcupine.Operation{} // by lease
	for i := range ops {
		op := &ops[i]
		in, out := op.Input.(input), op.Output.(output)
		switch {
		case out.outcome != done:
		case in.kind == opBorrow:
			at := position{in.pool, out.position}
			granted[at] = append(granted[at], op)
		case in.kind == opReturn:
			returned[in.lease] = op
		}
	}
	fence := func(op *porcupine.Operation) uint64 { return op.Output.(output).fence }
	for _, list := range granted {
		slices.SortFunc(list, func(a, b *porcupine.Operation) int { return cmp.Compare(fence(a), fence(b)) })
		var order []*porcupine.Operation // the operations on the position
		for _, op := range list {
			order = append(order, op)
			if r := returned[op.Input.(input).lease]; r != nil {
				order = append(order, r)
			}
		}
		inOrder(order)
	}
}

// inOrder shortens the times of operations that take effect in the given order. It leaves
// an operation without time as it is: that is an error, which the checker reports.
func inOrder(order []*porcupine.Operation) {
	calls, returns := make([]int64, len(order)), make([]int64, len(order))
	for i, op := range order {
		if calls[i] = op.Call; i > 0 {
			calls[i] = max(calls[i], calls[i-1])
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		if returns[i] = order[i].Return; i+1 < len(order) {
			returns[i] = min(returns[i], returns[i+1])
		}
		if calls[i] <= returns[i] {
			order[i].Call, order[i].Return = calls[i], returns[i]
		}
	}
}
