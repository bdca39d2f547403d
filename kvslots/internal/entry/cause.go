package entry

// Cause is why a peer purged a key, for events and for the holder of the lease. No rule depends on it.
type Cause uint8

const (
	NoCause   Cause = iota // its holder ended it, or it was not in use
	Expired                // its time was over
	Evicted                // an operator ended it
	Withdrawn              // its claimer was not told that it has the slot
	causes
)

func (c Cause) String() string { return [causes]string{"", "expired", "evicted", "withdrawn"}[c] }

func parseCause(text string) Cause {
	for c := NoCause; c < causes; c++ {
		if text == c.String() {
			return c
		}
	}
	return NoCause
}
