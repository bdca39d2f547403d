package reads

// State is a pool at one instant. It is the answer to a change of what is in service.
type State struct {
	Count     int `json:"count"`     // slots
	InUse     int `json:"in_use"`    // slots that are held
	Available int `json:"available"` // slots that are not held and in service; 0 if the pool has shrunk below what is held
	Waiting   int `json:"waiting"`   // borrowers in line
}

// NewState returns the State of a pool of which so many slots are out of service and not held.
func NewState(count, inUse, waiting, out int) State {
	return State{count, inUse, max(0, count-inUse-out), waiting}
}
