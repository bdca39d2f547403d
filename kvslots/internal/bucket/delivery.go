package bucket

import (
	"strconv"
	"strings"
	"time"
)

// delivery is the metadata in the reply subject of a delivered message.
type delivery struct {
	stream, consumer uint64 // sequences
	at               time.Time
	pending          uint64 // entries still to be delivered
}

// parseDelivery parses "$JS.ACK.<stream>.<consumer>.<deliveries>.<stream
// sequence>.<consumer sequence>.<nanoseconds>.<pending>", and the longer form
// with a domain and an account before the stream. Unlike Msg.Metadata it does not
// allocate.
func parseDelivery(reply string) (d delivery, ok bool) {
	const prefix, dots = "$JS.ACK.", 6 // of the short form
	rest, ok := strings.CutPrefix(reply, prefix)
	if !ok {
		return d, false
	}
	skip := 3
	if strings.Count(rest, ".") > dots {
		skip = 5
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	var numbers [4]uint64
	for i := range numbers {
		text, after, _ := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return d, false
		}
		numbers[i], rest = n, after
	}
	return delivery{numbers[0], numbers[1], time.Unix(0, int64(numbers[2])), numbers[3]}, true
}
