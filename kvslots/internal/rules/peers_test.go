package rules_test

import "testing"

// simulations is how many runs there are of each kind.
func simulations() uint64 {
	if testing.Short() {
		return 300
	}
	return 1000
}

// simulateAll runs the simulations and tells of the first that went wrong.
func simulateAll(k simKind) (total counts, wrong []string, seed uint64) {
	for i := range simulations() {
		s := simulate(i, k)
		total.add(s.counts)
		if wrong == nil && s.wrong != nil {
			wrong, seed = s.wrong, i
		}
	}
	return total, wrong, seed
}

func TestPeers(t *testing.T) {
	t.Parallel()
	total, wrong, seed := simulateAll(simKind{})
	t.Log(total)
	for _, w := range wrong {
		t.Errorf("seed %d: %s", seed, w)
	}
	if total.skipped == 0 || total.opened == 0 || total.grants == 0 || total.barriers == 0 {
		t.Error("nothing was put to the test")
	}
}

// The same peers, when they do not learn of what they skip, lend a slot too many.
func TestPeersThatIgnoreGaps(t *testing.T) {
	t.Parallel()
	total, _, _ := simulateAll(simKind{blind: true})
	t.Log(total)
	if total.overIssued == 0 {
		t.Error("no over-issue was found: the test has no teeth")
	}
}

// The same in a named pool, under two terms, for client sessions that come and go.
func TestPeersOfNamedPools(t *testing.T) {
	t.Parallel()
	total, wrong, seed := simulateAll(simKind{named: true, whole: true})
	t.Log(total)
	for _, w := range wrong {
		t.Errorf("seed %d: %s", seed, w)
	}
	if total.grants == 0 || total.voids == 0 || total.refused == 0 {
		t.Error("nothing was put to the test")
	}
}

// The same again, of whom each skips one entry in six. Nobody has a lease too many
// or under other terms than the others have, or loses it.
func TestPeersOfNamedPoolsThatSkip(t *testing.T) {
	t.Parallel()
	total, wrong, seed := simulateAll(simKind{named: true})
	t.Log(total)
	for _, w := range wrong {
		t.Errorf("seed %d: %s", seed, w)
	}
	if total.skipped == 0 || total.opened == 0 || total.grants == 0 || total.barriers == 0 || total.refused == 0 || total.again == 0 {
		t.Error("nothing was put to the test")
	}
	if total.ill*20 > total.refused {
		t.Error("more than one in twenty was refused wrongly")
	}
}

// And the same when they do not learn of it: their grants go wrong.
func TestPeersOfNamedPoolsThatIgnoreGaps(t *testing.T) {
	t.Parallel()
	total, _, _ := simulateAll(simKind{named: true, blind: true})
	t.Log(total)
	if total.overIssued+total.unfair == 0 {
		t.Error("no wrong grant was found: the test has no teeth")
	}
}
