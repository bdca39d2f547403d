package forrst

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// units are those of durations, from the largest to the smallest.
var units = []struct {
	name string
	of   time.Duration
}{
	{"day", 24 * time.Hour},
	{"hour", time.Hour},
	{"minute", time.Minute},
	{"second", time.Second},
}

const (
	unitsAllowed  = "second, minute, hour or day"
	valuesAllowed = "a whole number, 1 or more"

	// maxSpan is what any longer duration is taken for: 68 years, far above
	// every maximum that could be configured.
	maxSpan = math.MaxInt32 * time.Second
)

// span is a duration as it stands in envelopes.
type span struct {
	Value int64  `json:"value"`
	Unit  string `json:"unit"`
}

// spanOf is a duration in whole seconds.
func spanOf(d time.Duration) span { return span{int64(d / time.Second), "second"} }

// String is the span in words: "5 seconds".
func (s span) String() string {
	text := strconv.FormatInt(s.Value, 10) + " " + s.Unit
	if s.Value != 1 {
		text += "s"
	}
	return text
}

// span reads {"value", "unit"}; it must be there.
func (o object) span(field string) (span, time.Duration, *Error) {
	if !o.has(field) {
		return span{}, 0, o.fault(field, "an object with a value ("+valuesAllowed+") and a unit ("+unitsAllowed+")")
	}
	inner, wrong := o.object(field, "value", "unit")
	if wrong != nil {
		return span{}, 0, wrong
	}
	value, wrong := inner.positive("value")
	if wrong != nil {
		return span{}, 0, wrong
	}
	name, _ := inner.text("unit")
	for _, unit := range units {
		if unit.name == name {
			return span{value, name}, min(maxSpan, time.Duration(min(value, int64(maxSpan/unit.of)+1))*unit.of), nil
		}
	}
	return span{}, 0, inner.fault("unit", unitsAllowed)
}

// positive is a JSON number that is whole, 1 or more, of any length: 1.0 and 1e3 are
// whole, too.
func (o object) positive(field string) (int64, *Error) {
	number := string(o.fields[field])
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		value = wholeFloat(number)
	}
	if value < 1 {
		return 0, o.fault(field, valuesAllowed)
	}
	return value, nil
}

// wholeFloat is the whole number that a text stands for, or else 0; what is too large
// is the largest that there is.
func wholeFloat(text string) int64 {
	const exact = 1 << 53
	value, err := strconv.ParseFloat(text, 64) // infinite beyond its range
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), text[0] != '-' && (text[0] < '0' || text[0] > '9'):
		return 0
	case value >= exact:
		return math.MaxInt64
	case value < 1, value != math.Trunc(value):
		return 0
	}
	return int64(value)
}
