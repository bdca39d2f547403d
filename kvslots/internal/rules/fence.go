package rules

// Fenced returns the highest fence that the view knows of any slot, at least 1. A claim names it,
// and has a higher fence, whatever the leader's clock says; a slot's marker passes it on. It does
// not differ by slot: so it outlives the markers of a slot that is not used for a while.
func (v *View) Fenced() uint64 { return max(v.fenced, 1) }
