package wire

import (
	"math"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// maxSeconds is the bound to which larger numbers of seconds are reduced: 68 years, far
// above every maximum that can be configured, and within the range of time.Duration.
const maxSeconds = math.MaxInt32

// integer returns the value of a field that must be a JSON number without fraction and
// exponent, of any length. It returns limit+1 for a larger number, and -1 for a
// negative one.
func (o object) integer(field string, limit int64) (int64, bool) {
	digits := string(o[field])
	negative := len(digits) > 1 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if !allDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > limit { // err can only be ErrRange here
		n = limit + 1
	}
	if negative && n != 0 {
		n = -1
	}
	return n, true
}

func allDigits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return text != ""
}

// count returns the field "count" (gateway/README.md, "The Library API: /l").
func (o object) count() (int, error) {
	n, ok := o.integer("count", kvslots.MaxCount)
	if !ok || n < 0 || n > kvslots.MaxCount {
		return 0, rangeError("count", "an integer between 0 and "+strconv.Itoa(kvslots.MaxCount))
	}
	return int(n), nil
}

// ttl returns the field "ttl" (gateway/README.md, "The Library API: /l"), which is required.
func (o object) ttl() (time.Duration, error) {
	n, ok := o.integer("ttl", maxSeconds)
	if !ok || n < 1 {
		return 0, rangeError("ttl", "a whole number of seconds, 1 or more")
	}
	return seconds(n), nil
}

// optionalSeconds is seconds for a field that may be missing, which means 0.
func (o object) optionalSeconds(name string) (time.Duration, error) {
	if _, ok := o[name]; !ok {
		return 0, nil
	}
	return o.seconds(name)
}

// seconds returns a required field, at most maxSeconds. The store clamps it to its
// maximum.
func (o object) seconds(name string) (time.Duration, error) {
	n, ok := o.integer(name, maxSeconds)
	if !ok || n < 0 {
		return 0, rangeError(name, "a whole number of seconds, 0 or more")
	}
	return seconds(n), nil
}

func seconds(n int64) time.Duration { return time.Duration(min(n, maxSeconds)) * time.Second }
