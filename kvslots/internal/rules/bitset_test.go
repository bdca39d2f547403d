package rules

import (
	"testing"

	"pgregory.net/rapid"
)

// naivePositions is the simplest set of positions.
type naivePositions map[int]bool

func (p naivePositions) below(i int) int {
	n := 0
	for j := range p {
		if j < i {
			n++
		}
	}
	return n
}

func (p naivePositions) nextFree(i int) int {
	for p[i] {
		i++
	}
	return i
}

func TestPositionsAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fast positions
		naive := naivePositions{}
		at := rapid.OneOf(rapid.IntRange(0, 5), rapid.SampledFrom([]int{62, 63, 64, 65, 127, 128, 200}), rapid.IntRange(0, 200))
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			i := at.Draw(t, "position")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				fast.drop(i)
				delete(naive, i)
			case 1: // a run, so that whole words are full
				for j := range i {
					fast.put(j)
					naive[j] = true
				}
			default:
				fast.put(i)
				naive[i] = true
			}
			j := at.Draw(t, "asked")
			if fast.has(j) != naive[j] || fast.len() != len(naive) || fast.below(j) != naive.below(j) || fast.nextFree(j) != naive.nextFree(j) {
				t.Fatalf("at %d: has %v, len %d, below %d, next free %d; want %v", j, fast.has(j), fast.len(), fast.below(j), fast.nextFree(j), naive)
			}
		}
	})
}
