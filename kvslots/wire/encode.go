package wire

import (
	"encoding/json"
	"strconv"
)

// Encode returns the JSON of an answer, the same for every transport. It encodes the
// most frequent answers without reflection.
func Encode(answer any) ([]byte, error) {
	switch answer := answer.(type) {
	case Lease:
		return answer.encode(), nil
	case Returned:
		if answer.Returned {
			return []byte(`{"returned":true}`), nil
		}
		return []byte(`{"returned":false}`), nil
	case Empty:
		return []byte("{}"), nil
	}
	return json.Marshal(answer)
}

// maxLease is about the length in bytes of the longest encoded Lease.
const maxLease = 192

func (l Lease) encode() []byte {
	b := append(make([]byte, 0, maxLease), `{"lease":"`...)
	b = append(b, l.Lease.String()...)
	b = append(b, `","position":`...)
	b = strconv.AppendInt(b, int64(l.Position), 10)
	b = append(b, `,"expires_at_unix":`...)
	b = strconv.AppendInt(b, l.ExpiresAtUnix, 10)
	b = append(b, `,"expires_in":`...)
	b = strconv.AppendInt(b, l.ExpiresIn, 10)
	b = append(b, `,"fence":`...)
	b = strconv.AppendUint(b, l.Fence, 10)
	return append(b, '}')
}
