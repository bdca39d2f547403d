package rules

import "math/bits"

// positions is a set of slot positions, with a bit for each.
type positions []uint64

func (p positions) has(i int) bool {
	return i>>6 < len(p) && p[i>>6]&(1<<(i&63)) != 0
}

func (p *positions) put(i int) {
	for i>>6 >= len(*p) {
		*p = append(*p, 0)
	}
	(*p)[i>>6] |= 1 << (i & 63)
}

func (p positions) drop(i int) {
	if i>>6 < len(p) {
		p[i>>6] &^= 1 << (i & 63)
	}
}

func (p positions) len() int { return p.below(len(p) << 6) }

func (p positions) below(i int) int {
	n := 0
	for w := 0; w < len(p) && w<<6 < i; w++ {
		word := p[w]
		if rest := i - w<<6; rest < 64 {
			word &= 1<<rest - 1
		}
		n += bits.OnesCount64(word)
	}
	return n
}

// nextFree returns the lowest position from i on that is not a member.
func (p positions) nextFree(i int) int {
	for i>>6 < len(p) {
		if free := ^p[i>>6] >> (i & 63); free != 0 {
			return i + bits.TrailingZeros64(free)
		}
		i = (i>>6 + 1) << 6
	}
	return i
}
