package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is the pflag.Value of every flag whose text is checked. Set checks the text, so
// that its caller can add the name of the flag, variable or key to the error. Errors do
// not contain the text, which may be a secret, unless the kind says otherwise.
type value[T any] struct {
	target *T
	kind   string // name of the type in the help
	parse  func(text string) (T, error)
	format func(T) string // of what parse reads; nil is fmt.Sprint
}

// with returns the value with its default.
func (v value[T]) with(initial T) value[T] {
	*v.target = initial
	return v
}

func (v value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.target = parsed
	}
	return err
}

func (v value[T]) String() string {
	switch {
	case v.target == nil: // pflag calls String on a zero value
		return ""
	case v.format == nil:
		return fmt.Sprint(*v.target)
	}
	return v.format(*v.target)
}

func (v value[T]) Type() string { return v.kind }

// Duration is a flag such as "30s", "1h" or "1d". A bare number is seconds.
func Duration(target *time.Duration, initial, min, max time.Duration) value[time.Duration] {
	return multiple(target, time.Nanosecond, "a duration", min, max).with(initial)
}

// Seconds is a Duration in whole seconds.
func Seconds(target *time.Duration, initial, min, max time.Duration) value[time.Duration] {
	return multiple(target, time.Second, "a duration in whole seconds", min, max).with(initial)
}

const (
	// MaxDuration is longer than any useful lease or wait, and does not overflow.
	MaxDuration = 365 * 24 * time.Hour

	// Forever is the value of Wait for the word forever. It can be added to a time.
	Forever = 100 * MaxDuration

	forever = "forever"
)

// Wait is a flag such as "30s" or "1.5", or "forever"; 0 is no wait.
func Wait(target *time.Duration, initial time.Duration) value[time.Duration] {
	v := Duration(target, initial, 0, MaxDuration)
	duration := v.parse
	v.kind = "duration|forever"
	v.parse = func(text string) (time.Duration, error) {
		if text == forever {
			return Forever, nil
		}
		wait, err := duration(text)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, forever)
		}
		return wait, err
	}
	return v
}

// multiple is a flag that takes a multiple of unit in a range.
func multiple(target *time.Duration, unit time.Duration, what string, min, max time.Duration) value[time.Duration] {
	return value[time.Duration]{target, "duration", func(text string) (time.Duration, error) {
		d, err := parseDuration(text)
		if err != nil || d < min || d > max || d%unit != 0 {
			return 0, fmt.Errorf(`must be %s such as "30s" or "1h", or a number of seconds, between %s and %s`,
				what, FormatDuration(min), FormatDuration(max))
		}
		return d, nil
	}, FormatDuration}
}

// parseDuration reads what time.ParseDuration reads, a number of seconds, and one of days with "d". Both may have a fraction.
func parseDuration(text string) (time.Duration, error) {
	number, days := strings.CutSuffix(text, "d")
	switch {
	case strings.Trim(number, "0123456789.") != "" || number == "":
		return time.ParseDuration(text)
	case days:
		d, err := time.ParseDuration(number + "h")
		return min(d, MaxDuration) * 24, err
	}
	return time.ParseDuration(text + "s")
}

// FormatDuration formats a duration as Duration reads it.
func FormatDuration(d time.Duration) string {
	switch {
	case d == Forever:
		return forever
	case d != 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}

func Number(target *int, initial, min, max int) value[int] {
	return value[int]{target, "int", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < min || n > max {
			return 0, fmt.Errorf("must be an integer between %d and %d", min, max)
		}
		return n, nil
	}, nil}.with(initial)
}

// maximum is a flag that takes the maximum of a number; 0 is none.
func maximum(target *int, initial int) value[int] { return Number(target, initial, 0, math.MaxInt32) }

// size is a flag that takes a number of bytes, by default 0, with K, M, G or T for powers of 1024.
func size(target *int64) value[int64] {
	return value[int64]{target, "bytes", func(text string) (int64, error) {
		digits, power := text, 0
		if last := len(text) - 1; last >= 0 {
			if power = 1 + strings.IndexByte("KMGT", text[last]); power > 0 {
				digits = text[:last]
			}
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > maxSize>>(10*power) {
			return 0, fmt.Errorf("must be a number of bytes such as 512M or 2G")
		}
		return int64(n << (10 * power)), nil
	}, nil}
}

const maxSize = 1 << 60

// Decimal is a flag that takes 0, the default, or a number in a range.
func Decimal(target *float64, min, max float64) value[float64] {
	return value[float64]{target, "number", func(text string) (float64, error) {
		n, err := strconv.ParseFloat(text, 64)
		// NaN is in no range.
		if err != nil || n != 0 && !(n >= min && n <= max) {
			return 0, fmt.Errorf("must be 0, or a number between %s and %s", formatDecimal(min), formatDecimal(max))
		}
		return n, nil
	}, formatDecimal}
}

func formatDecimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// toggle is a flag that takes true or false.
func toggle(target *bool, initial bool) value[bool] {
	return value[bool]{target, "bool", strconv.ParseBool, nil}.with(initial)
}

func anyText(string) error { return nil }

// plain is a flag that takes any text.
func plain(target *string, initial string) value[string] {
	return checked(target, "string", anyText).with(initial)
}

// checked is a flag that takes a text for which check returns nil.
func checked[T ~string](target *T, kind string, check func(text string) error) value[T] {
	return value[T]{target, kind, func(text string) (T, error) { return T(text), check(text) }, nil}
}

func Choice[T ~string](target *T, initial T, words ...string) value[T] {
	return checked(target, strings.Join(words, "|"), func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}).with(initial)
}

// list is a flag that takes entries separated by commas, or nothing.
func list[T any](target *[]T, kind string, parse func(entry string) (T, error)) value[[]T] {
	return value[[]T]{target, kind, func(text string) (entries []T, err error) {
		for _, entry := range splitList(text) {
			parsed, err := parse(entry)
			if err != nil {
				return nil, err
			}
			entries = append(entries, parsed)
		}
		return entries, nil
	}, func(entries []T) string {
		var texts []string
		for _, entry := range entries {
			texts = append(texts, fmt.Sprint(entry))
		}
		return strings.Join(texts, ",")
	}}
}

// texts is a list of texts for which check returns nil.
func texts(target *[]string, kind string, check func(entry string) error) value[[]string] {
	return list(target, kind, func(entry string) (string, error) { return entry, check(entry) })
}

// splitList returns the entries of a list, which has none if text is empty.
func splitList(text string) (entries []string) {
	if text == "" {
		return nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		entries = append(entries, strings.TrimSpace(entry))
	}
	return entries
}
