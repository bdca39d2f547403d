package rules

// The sets of pools that the view keeps.
const (
	inDoubt      = iota // pools with claims in doubt
	leftOpen            // pools with open claims
	hasAble             // pools with tickets for which there is a permit
	isClosing           // pools that are being closed
	hasLine             // pools with tickets
	isNamed             // named pools in use
	isRegistered        // registered pools without a name
	sets
)

// poolSet is a set of pools. Its order is a function of the calls of put.
type poolSet struct {
	kind int
	list []*Pool
}

func (s *poolSet) put(p *Pool, member bool) {
	i := p.member[s.kind]
	switch {
	case member && i == 0:
		s.list = append(s.list, p)
		p.member[s.kind] = len(s.list)
	case !member && i != 0:
		last := len(s.list) - 1
		s.list[i-1] = s.list[last]
		s.list[i-1].member[s.kind] = i
		s.list[last] = nil
		s.list = s.list[:last]
		p.member[s.kind] = 0
	}
}
