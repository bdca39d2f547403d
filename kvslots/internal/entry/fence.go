package entry

// Fence returns the fencing token of the lease in a slot's entry, or 0 if it has none. That
// of a claim is the microseconds since 1970, by the leader's clock: so it is higher than
// those of earlier leases even if the stream has lost these. If the clock was set back, it
// is above SlotValue.After. A renewal repeats the fence.
func (e *Entry) Fence() uint64 {
	switch v := &e.Slot; {
	case e.Key.Kind != Slot, e.Marker, e.Corrupt != nil:
		return 0
	case v.Fence != 0:
		return v.Fence
	}
	return max(uint64(e.Time.UnixMicro()), e.Slot.After+1)
}
