package rules

// InFlight holds a peer's writes to one pool that its view does not show yet.
type InFlight struct {
	Claims  map[int]Claim // by the position claimed
	Joining int           // the number of new tickets
}

type Claim struct {
	Place  uint64 // of its ticket, or 0
	Author uint64 // see entry.Entry
}

// Serves reports whether a claim in flight names the ticket of a place.
func (f *InFlight) Serves(place uint64) bool {
	if f == nil {
		return false
	}
	for _, c := range f.Claims {
		if c.Place == place {
			return true
		}
	}
	return false
}
