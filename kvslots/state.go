package kvslots

// MaxCount is the largest count a pool may have (gateway/README.md, "The Library API: /l").
const MaxCount = 1000

// State is what a pool looks like at one instant.
type State struct {
	Count   int // slots in the pool, 0 … MaxCount
	InUse   int // live leases; may exceed Count after the pool was shrunk
	Waiting int // borrowers standing in line
}

// Available is the number of free slots, never below 0.
func (s State) Available() int { return max(0, s.Count-s.InUse) }
