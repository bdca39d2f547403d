package rules

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPoolSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := make([]*Pool, 5)
		for i := range pools {
			pools[i] = &Pool{}
		}
		var fast poolSets
		naive := [kinds]map[*Pool]bool{{}, {}}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			i, p := rapid.IntRange(hasAble, isClosing).Draw(t, "set"), rapid.SampledFrom(pools).Draw(t, "pool")
			member := rapid.Bool().Draw(t, "member")
			fast.put(i, p, member)
			if naive[i][p] = member; !member {
				delete(naive[i], p)
			}
			for i, s := range fast {
				if len(s) != len(naive[i]) {
					t.Fatalf("%d members, want %d", len(s), len(naive[i]))
				}
				for _, p := range pools {
					if slices.Contains(s, p) != naive[i][p] {
						t.Fatalf("a member: %v, want %v", !naive[i][p], naive[i][p])
					}
				}
			}
		}
	})
}
