package wire

import (
	"bytes"
	"encoding/json"
)

// MaxAnswer bounds the pages that are answered over NATS, in bytes. A message of the embedded server
// has 128 KiB at most.
const MaxAnswer = 96 << 10

// Encode returns v as JSON, as answers over NATS have it: without escapes for HTML, which make a
// character six times as long.
func Encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
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
func (d *PoolDetail) Shorten(most int) {
	rest := *d
	rest.Leases, rest.Line, rest.NextFrom, rest.NextAfter = []HolderInfo{}, []WaiterInfo{}, maxPlace, maxPlace
	_, others := fitting([]PoolDetail{rest}, most)
	n, bytes := fitting(d.Leases, (most-others)/2)
	if n < len(d.Leases) {
		d.Leases, d.NextFrom = d.Leases[:n], d.Leases[n].Position
	}
	if n, _ = fitting(d.Line, most-others-bytes); n < len(d.Line) {
		d.Line, d.NextAfter = d.Line[:n], d.Line[n-1].Place
	}
}
