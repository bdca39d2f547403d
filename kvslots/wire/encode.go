package wire

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/kvslots/kvslots/kvslots/reads"
)

// MaxAnswer bounds the pages that are answered over NATS, in bytes. A message of the embedded server
// has 128 KiB at most.
const MaxAnswer = 96 << 10

// encoder is kept for the next text, since a new one takes several allocations.
type encoder struct {
	text bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.text)
	e.json.SetEscapeHTML(false)
	return e
}}

const maxEncoder = 16 << 10

// Encode returns v as JSON without escapes for HTML, which make a character six times as long.
// encoding/json adds them to what json.Marshal returns.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	e.text.Reset()
	if err := e.json.Encode(v); err != nil {
		return nil, err // the encoder fails from here on if a write has failed
	}
	body := bytes.Clone(bytes.TrimSuffix(e.text.Bytes(), []byte("\n")))
	if e.text.Cap() <= maxEncoder {
		encoders.Put(e)
	}
	return body, nil
}

// fitting returns how many items, from the first one, take at most so many bytes with a comma each,
// and how many bytes they take. It returns at least one if there is one.
func fitting[T any](items []T, most int) (n, bytes int) {
	for i, item := range items {
		text, _ := Encode(item) // does not fail for the items of answers
		if n > 0 && bytes+len(text)+1 > most {
			break
		}
		n, bytes = i+1, bytes+len(text)+1
	}
	return n, bytes
}

// Fitting returns how many of the pools fit into so many bytes; at least one if there is one.
func (l *PoolList) Fitting(most int) int {
	n, _ := fitting(l.Pools, most)
	return n
}

// Shorten ends the pages of leases and of the line so that the answer has at most so many bytes.
func Shorten(d *reads.Detail, most int) {
	rest := *d
	rest.Holders, rest.Waiters, rest.NextFrom, rest.NextAfter = []reads.Holder{}, []reads.Waiter{}, maxPlace, maxPlace
	_, others := fitting([]reads.Detail{rest}, most)
	n, bytes := fitting(d.Holders, (most-others)/2)
	if n < len(d.Holders) {
		d.Holders, d.NextFrom = d.Holders[:n], d.Holders[n].Position
	}
	if n, _ = fitting(d.Waiters, most-others-bytes); n < len(d.Waiters) {
		d.Waiters, d.NextAfter = d.Waiters[:n], d.Waiters[n-1].Place
	}
}
