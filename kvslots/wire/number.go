package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxSeconds is the bound to which larger numbers of seconds are reduced: 68 years, far
// above every maximum that can be configured, and within the range of time.Duration.
const maxSeconds = math.MaxInt32

// integer returns the value of a field that must be a JSON number without fraction and
// exponent. A number beyond the range of an int64 counts as the end of that range.
func (o object) integer(field string) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(o[field]), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// between returns a required field that contains an integer in a range.
func (o object) between(field string, low, high int64) (int, error) {
	n, ok := o.integer(field)
	if !ok || n < low || n > high {
		return 0, rangeError(field, fmt.Sprintf("an integer between %d and %d", low, high))
	}
	return int(n), nil
}

// seconds returns a required field that contains a number of seconds, at most maxSeconds.
// The store clamps it to its maximum.
func (o object) seconds(field string, low int64) (time.Duration, error) {
	n, ok := o.integer(field)
	if !ok || n < low {
		return 0, rangeError(field, fmt.Sprintf("a whole number of seconds, %d or more", low))
	}
	return time.Duration(min(n, maxSeconds)) * time.Second, nil
}

// optionalSeconds is seconds for a field that may be missing, which means 0.
func (o object) optionalSeconds(field string) (time.Duration, error) {
	if _, ok := o[field]; !ok {
		return 0, nil
	}
	return o.seconds(field, 0)
}
