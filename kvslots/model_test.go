package kvslots

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// This is the sequential model of one pool, against which histories are checked: a count,
// and the lease at each position.

const modelSlots = 6 // counts go from 0 to this

type opKind int

const (
	opRegister opKind = iota
	opInspect
	opDelete
	opBorrow
	opReturn
	opRenew
	opExpire // a lease ended by time
)

type input struct {
	kind  opKind
	pool  int
	count int
	lease int // a number that the test assigns, also to borrows that were canceled
	// withdrawn is the number of claims that a peer withdrew because they were void, or
	// because it could not know whether they were valid. Until then other peers count
	// them, so that many free slots may seem to be taken.
	withdrawn int
}

type outcome int

const (
	done outcome = iota
	noPool
	noSlot
	notHeld
	gaveUp
	unknown // the store was unavailable
)

type output struct {
	outcome  outcome
	state    State
	position int
	fence    uint64
}

type poolModel struct {
	registered bool
	count      int
	holder     [modelSlots]int    // 0: free
	fence      [modelSlots]uint64 // the highest granted one
}

func (p poolModel) inUse() int {
	n := 0
	for _, h := range p.holder {
		if h != 0 {
			n++
		}
	}
	return n
}

func (p poolModel) without(lease int) (poolModel, bool) {
	for i, h := range p.holder {
		if h == lease {
			p.holder[i] = 0
			return p, true
		}
	}
	return p, false
}

func (p poolModel) canBorrow() bool { return p.registered && p.inUse() < p.count }

// step returns the possible states of the pool after the operation; none if the operation
// cannot have had that outcome.
func (p poolModel) step(in input, out output) []poolModel {
	may := func(ok bool, next poolModel) []poolModel {
		if ok {
			return []poolModel{next}
		}
		return nil
	}
	agrees := func(q poolModel) bool {
		return out.state.Count == q.count && out.state.InUse >= q.inUse() && out.state.InUse <= q.inUse()+in.withdrawn
	}
	without, held := p.without(in.lease)
	if out.outcome == unknown {
		return p.either(in, without)
	}
	switch in.kind {
	case opRegister:
		p.registered, p.count = true, in.count
		return may(true, p)
	case opInspect:
		if out.outcome == noPool {
			return may(!p.registered, p)
		}
		return may(p.registered && agrees(p), p)
	case opDelete:
		return may(true, poolModel{fence: p.fence})
	case opBorrow:
		return p.borrow(in, out)
	case opReturn, opRenew:
		switch out.outcome {
		case noPool:
			return may(!p.registered, p)
		case notHeld:
			if in.kind == opRenew && held { // its time was over, and this call ends it
				return may(p.registered, without)
			}
			return may(p.registered && !held, p)
		}
		if in.kind == opRenew {
			return may(p.registered && held, p)
		}
		return may(p.registered && held, without)
	case opExpire:
		return may(true, without)
	}
	return nil
}

// borrow accepts any free position, not only the lowest one: the lowest is reserved for
// the first ticket in line, even if its borrower has just given up.
func (p poolModel) borrow(in input, out output) []poolModel {
	i := out.position
	switch out.outcome {
	case noPool:
		if !p.registered {
			return []poolModel{p}
		}
	case noSlot:
		if p.registered && p.inUse()+in.withdrawn >= p.count {
			return []poolModel{p}
		}
	case done:
		if p.canBorrow() && p.holder[i] == 0 && out.fence > p.fence[i] {
			p.holder[i], p.fence[i] = in.lease, out.fence
			return []poolModel{p}
		}
	case gaveUp:
		return []poolModel{p}
	}
	return nil
}

// either returns the possible states after an operation that may or may not have taken
// effect.
func (p poolModel) either(in input, without poolModel) []poolModel {
	after := p
	switch in.kind {
	case opRegister:
		after.registered, after.count = true, in.count
	case opDelete:
		after = poolModel{fence: p.fence}
	case opReturn:
		after = without
	}
	return []poolModel{p, after}
}

var modelOfPools = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byPool := map[int][]porcupine.Operation{}
			for _, op := range history {
				pool := op.Input.(input).pool
				byPool[pool] = append(byPool[pool], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byPool {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{poolModel{}} },
		Step: func(state, in, out any) []any {
			var next []any
			for _, s := range state.(poolModel).step(in.(input), out.(output)) {
				next = append(next, s)
			}
			return next
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
	}
	return m.ToModel()
}()

func describe(in input, out output) string {
	kinds := [...]string{"register", "inspect", "delete", "borrow", "return", "renew", "expire"}
	outcomes := [...]string{"done", "no pool", "no slot", "not held", "gave up", "unknown"}
	return fmt.Sprintf("%s(count %d, lease %d) %s count=%d in_use=%d position=%d fence=%d",
		kinds[in.kind], in.count, in.lease, outcomes[out.outcome], out.state.Count, out.state.InUse, out.position, out.fence%1e9)
}

// explain prints the operations of the first pool whose history is not linearizable,
// around the end of its longest linearizable part.
func explain(history []porcupine.Operation) string {
	for _, part := range modelOfPools.Partition(history) {
		result, info := porcupine.CheckOperationsVerbose(modelOfPools, part, time.Minute)
		if result != porcupine.Illegal {
			continue
		}
		longest := 0
		explained := map[int]bool{}
		var state any
		for _, partial := range info.PartialLinearizations() {
			for _, chain := range partial {
				if len(chain) > longest {
					longest = len(chain)
					clear(explained)
					state = modelOfPools.Init()
					for _, i := range chain {
						explained[i] = true
						_, state = modelOfPools.Step(state, part[i].Input, part[i].Output)
					}
				}
			}
		}
		var text strings.Builder
		fmt.Fprintf(&text, "result %s, %d operations, %d explained, then %+v\n", result, len(part), longest, state)
		stuck := int64(1 << 62) // the first operation after the longest linearizable part
		for i, op := range part {
			if !explained[i] {
				stuck = min(stuck, op.Return)
			}
		}
		order := make([]int, len(part))
		for i := range order {
			order[i] = i
		}
		sort.Slice(order, func(i, j int) bool { return part[order[i]].Call < part[order[j]].Call })
		for _, i := range order {
			op := part[i]
			if op.Return < stuck-2000e6 || op.Call > stuck+20e6 {
				continue
			}
			mark := " "
			if !explained[i] {
				mark = "?"
			}
			fmt.Fprintf(&text, "%s %12d %12d client %3d %s\n", mark, op.Call/1000, op.Return/1000, op.ClientId,
				describe(op.Input.(input), op.Output.(output)))
		}
		return text.String()
	}
	return ""
}
