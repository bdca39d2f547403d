package rules

// FenceAfter returns SlotValue.After of a claim of a position, whose slot may be nil. byClock is
// unset if a peer of the release before may be alive, for which the fence of a claim is its
// revision: then After is 0, unless that would be below an earlier fence.
func (v *View) FenceAfter(s *Slot, byClock bool) uint64 {
	var last uint64
	if s != nil {
		last = s.fenced
	}
	if !byClock && last <= v.Revision {
		return 0
	}
	return max(last, 1)
}
