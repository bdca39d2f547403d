package rules

const (
	hasAble   = iota // pools with tickets for which there is a permit
	isClosing        // pools that are being closed
	hasLine          // pools with tickets
	isNamed          // named pools in use
	isListed         // registered pools, and named pools in use
	isTitled         // registered pools with a title
	kinds
)

// poolSets holds a set of each kind, so that no search visits every pool.
type poolSets [kinds]poolSet

func (s *poolSets) put(kind int, p *Pool, member bool) { s[kind].put(kind, p, member) }

// poolSet is a set of pools. Its order is a function of the calls of put.
type poolSet []*Pool

func (s *poolSet) put(kind int, p *Pool, member bool) {
	list, i := *s, p.member[kind]
	switch {
	case member && i == 0:
		*s = append(list, p)
		p.member[kind] = len(*s)
	case !member && i != 0:
		last := len(list) - 1
		list[i-1] = list[last]
		list[i-1].member[kind] = i
		list[last] = nil
		*s = list[:last]
		p.member[kind] = 0
	}
}
