package forrst

import (
	"errors"
	"math"
	"strconv"
	"time"
)

var units = map[string]time.Duration{"day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second}

const (
	unitsAllowed  = "second, minute, hour or day"
	valuesAllowed = "a whole number, 1 or more"

	// maxDuration replaces any longer duration: 68 years, far above every maximum that
	// can be configured.
	maxDuration = math.MaxInt32 * time.Second
)

type duration struct {
	Value int64  `json:"value"`
	Unit  string `json:"unit"`
}

func (s duration) String() string {
	text := strconv.FormatInt(s.Value, 10) + " " + s.Unit
	if s.Value != 1 {
		text += "s"
	}
	return text
}

// duration returns a required field with a value and a unit.
func (o object) duration(field string) (duration, time.Duration, *Error) {
	if !o.has(field) {
		return duration{}, 0, o.fault(field, "an object with a value ("+valuesAllowed+") and a unit ("+unitsAllowed+")")
	}
	inner, wrong := o.object(field, "value", "unit")
	if wrong != nil {
		return duration{}, 0, wrong
	}
	value, wrong := inner.positive("value")
	if wrong != nil {
		return duration{}, 0, wrong
	}
	name, _ := inner.text("unit")
	unit := units[name]
	if unit == 0 {
		return duration{}, 0, inner.fault("unit", unitsAllowed)
	}
	return duration{value, name}, min(maxDuration, time.Duration(min(value, int64(maxDuration/unit)+1))*unit), nil
}

// positive returns a JSON number that is whole and at least 1, of any length: 1.0 and 1e3
// are whole, too. A number that may not be exact counts as the largest integer.
func (o object) positive(field string) (int64, *Error) {
	const exact = 1 << 53
	value, err := strconv.ParseFloat(string(o.fields[field]), 64) // infinite if out of range
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), value < 1, value != math.Trunc(value):
		return 0, o.fault(field, valuesAllowed)
	case value >= exact:
		return math.MaxInt64, nil
	}
	return int64(value), nil
}
