package entry

// Mark is what the marker of a purge says.
type Mark struct {
	Fenced uint64 // of the purge of a slot: the highest fence that its peer knew; 0: not known
	Origin Hash   // of the purge of a configuration or a session: of the client that had made it; zero: not known
	Cause  Cause
	Owner  string // of the purge of a slot: a hash of the owner that released the lock
	By     string // with Evicted: the name of the operator; "": none, or one that has to be escaped
}

// Value appends the value to dst as it is stored. It begins with the write's stamp: the fields
// author and outlives, which are not in Data, since they are known later, or differ between two
// writes of one value.
func (m *Message) Value(dst []byte) []byte {
	c := codec{data: dst}
	c.stamp(&m.Author, &m.Outlives)
	if m.Marker {
		mark := m.Mark
		c.mark(&mark)
	}
	switch {
	case len(m.Data) == 0 && c.begun:
		return append(c.data, '}')
	case !c.begun:
		return append(dst, m.Data...)
	case len(m.Data) > len("{}"):
		c.data = append(c.data, ',')
	}
	return append(c.data, m.Data[1:]...)
}

// stamp writes or reads the fields with which every value begins.
func (c *codec) stamp(author *uint64, outlives *int64) {
	until := uint64(*outlives)
	c.number(`"author":`, author)
	c.number(`"outlives":`, &until)
	if c.unfit {
		*author, until = 0, 0
	}
	*outlives = int64(until)
}

func (c *codec) mark(m *Mark) {
	cause := m.Cause.String()
	c.text(`"cause":"`, &cause)
	c.text(`"owner":"`, &m.Owner)
	c.text(`"by":"`, &m.By)
	c.number(`"fence":`, &m.Fenced)
	c.hash(`"origin":"`, &m.Origin)
	m.Cause = parseCause(cause)
}

// decodeMark decodes the rest of a marker's value, whose stamp c has read. The markers of the
// server, and those of other programs, say nothing.
func decodeMark(c codec) (m Mark) {
	c.mark(&m)
	if c.end(len(m.Owner) <= MaxLabel && len(m.By) <= MaxLabel); c.unfit {
		return Mark{}
	}
	return m
}
