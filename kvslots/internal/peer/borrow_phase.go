package peer

type phase uint8

// The phases; the package comment draws what leads from one to another.
const (
	arrived     phase = iota // in its pool's queue: not decided yet, or its callers are about to be refused
	joining                  // its ticket is sent
	waiting                  // its ticket stands in the line
	claiming                 // its claim is sent, and not judged yet
	withdrawing              // its claim is void, and is being purged
	parting                  // its ticket is being written again, since no caller waits
	resuming                 // the slot that was granted for its request key is being written again
	done                     // it has its outcome
	phases
)

func (f phase) String() string {
	return [...]string{"arrived", "joining", "waiting", "claiming", "withdrawing", "parting", "resuming", "done"}[f]
}

// transitions are the phases that may follow each phase.
var transitions = [phases][]phase{
	arrived:     {joining, waiting, claiming, parting, resuming, done},
	joining:     {arrived, waiting, done},
	waiting:     {arrived, joining, claiming, parting, done},
	claiming:    {arrived, waiting, withdrawing, done},
	withdrawing: {arrived, waiting, done},
	parting:     {arrived, done},
	resuming:    {arrived, done},
	done:        {},
}

type Transition struct{ From, To string }

func Transitions() []Transition {
	var all []Transition
	for from, to := range transitions {
		for _, f := range to {
			all = append(all, Transition{phase(from).String(), f.String()})
		}
	}
	return all
}
