package settings

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// flagValue is the pflag.Value of every flag whose text is checked. Set checks the text,
// so that its caller can add the name of the flag, variable or key to the error. Errors
// do not contain the text, which may be a secret, unless the flag says otherwise.
type flagValue[T any] struct {
	target *T
	kind   string // name of the type in the help
	parse  func(text string) (T, error)
	format func(T) string
}

func (f flagValue[T]) Set(text string) error {
	value, err := f.parse(text)
	if err == nil {
		*f.target = value
	}
	return err
}

func (f flagValue[T]) String() string {
	if f.target == nil { // pflag calls String on a zero value
		return ""
	}
	return f.format(*f.target)
}

func (f flagValue[T]) Type() string { return f.kind }

// Duration is a flag such as "30s" or "1h". A bare number is seconds.
func Duration(target *time.Duration, min, max time.Duration) flagValue[time.Duration] {
	return multiple(target, time.Nanosecond, "a duration", min, max)
}

// Seconds is a Duration in whole seconds.
func Seconds(target *time.Duration, min, max time.Duration) flagValue[time.Duration] {
	return multiple(target, time.Second, "a duration in whole seconds", min, max)
}

// Forever is the value of Wait for the word forever. It can be added to a time.
const Forever = 100 * 365 * 24 * time.Hour

const forever = "forever"

// Wait is a flag such as "30s", or "forever". A bare number is seconds; 0 is no wait.
func Wait(target *time.Duration) flagValue[time.Duration] {
	value := Seconds(target, 0, MaxDuration)
	seconds := value.parse
	value.kind = "duration|forever"
	value.parse = func(text string) (time.Duration, error) {
		if text == forever {
			return Forever, nil
		}
		wait, err := seconds(text)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, forever)
		}
		return wait, err
	}
	return value
}

// multiple is a flag that takes a multiple of unit in a range.
func multiple(target *time.Duration, unit time.Duration, format string, min, max time.Duration) flagValue[time.Duration] {
	return flagValue[time.Duration]{target, "duration", func(text string) (time.Duration, error) {
		value, err := parseDuration(text)
		if err != nil || value < min || value > max || value%unit != 0 {
			return 0, fmt.Errorf(`must be %s such as "30s" or "1h", or a number of seconds, between %s and %s`,
				format, FormatDuration(min), FormatDuration(max))
		}
		return value, nil
	}, FormatDuration}
}

func parseDuration(text string) (time.Duration, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		text += "s"
	}
	return time.ParseDuration(text)
}

// FormatDuration formats a duration as Duration reads it.
func FormatDuration(value time.Duration) string {
	switch {
	case value == Forever:
		return forever
	case value != 0 && value%time.Hour == 0:
		return strconv.Itoa(int(value/time.Hour)) + "h"
	case value%time.Second == 0:
		return strconv.Itoa(int(value/time.Second)) + "s"
	}
	return value.String()
}

func Number(target *int, min, max int) flagValue[int] {
	return flagValue[int]{target, "int", func(text string) (int, error) {
		value, err := strconv.Atoi(text)
		if err != nil || value < min || value > max {
			return 0, fmt.Errorf("must be an integer between %d and %d", min, max)
		}
		return value, nil
	}, strconv.Itoa}
}

// share is what one client may have of what all clients may have: a number or, if percent is
// set, so many percent of it.
type share struct {
	n       int
	percent bool
}

// of returns the share of a maximum, at least 1, or 0 without a limit. 0 is no maximum.
func (s share) of(most int) int {
	switch {
	case !s.percent:
		return s.n
	case most == 0:
		return 0
	}
	return max(1, most*s.n/100)
}

// shareFlag is a flag that takes a share.
func shareFlag(target *share) flagValue[share] {
	return flagValue[share]{target, "int|percent", func(text string) (s share, err error) {
		text, s.percent = strings.CutSuffix(text, "%")
		s.n, err = strconv.Atoi(text)
		if err != nil || s.n < 0 || s.n > math.MaxInt32 || s.percent && (s.n < 1 || s.n > 100) {
			return s, fmt.Errorf("must be an integer between 0 and %d, or a percentage between 1%% and 100%%", math.MaxInt32)
		}
		return s, nil
	}, func(s share) string {
		if s.percent {
			return strconv.Itoa(s.n) + "%"
		}
		return strconv.Itoa(s.n)
	}}
}

// size is a flag that takes a number of bytes, with K, M, G or T for powers of 1024.
func size(target *int64) flagValue[int64] {
	return flagValue[int64]{target, "bytes", func(text string) (int64, error) {
		value, err := strconv.ParseInt(strings.TrimRight(text, "KMGT"), 10, 64)
		power := 0
		if text != "" {
			power = strings.IndexByte("KMGT", text[len(text)-1]) + 1
		}
		if err != nil || value < 0 || value > maxSize>>(10*power) || strings.ContainsAny(text[:len(text)-1], "KMGT+") {
			return 0, fmt.Errorf("must be a number of bytes such as 512M or 2G")
		}
		return value << (10 * power), nil
	}, func(value int64) string { return strconv.FormatInt(value, 10) }}
}

const maxSize = 1 << 60

func Decimal(target *float64, min, max float64) flagValue[float64] {
	return flagValue[float64]{target, "number", func(text string) (float64, error) {
		value, err := strconv.ParseFloat(text, 64)
		// NaN is in no range.
		if err != nil || value != 0 && !(value >= min && value <= max) {
			return 0, fmt.Errorf("must be 0, or a number between %s and %s", formatDecimal(min), formatDecimal(max))
		}
		return value, nil
	}, formatDecimal}
}

func formatDecimal(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func asGiven(text string) string { return text }

// checked is a flag that takes a text for which check returns nil.
func checked(target *string, kind string, check func(text string) error) flagValue[string] {
	return flagValue[string]{target, kind, func(text string) (string, error) { return text, check(text) }, asGiven}
}

func Choice(target *string, words ...string) flagValue[string] {
	return checked(target, strings.Join(words, "|"), func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9][\w-]*(\.[\w-]+)*$`)

func subjectPrefix(target *string) flagValue[string] {
	return checked(target, "subject", func(text string) error {
		if first, _, _ := strings.Cut(text, "."); len(text) > 100 || !validPrefix.MatchString(text) || first == subjects.Service {
			return fmt.Errorf("must be up to 100 characters: words of A-Z, a-z, 0-9, - and _ with dots between them, and must not begin with kvslots or _")
		}
		return nil
	})
}

// list is a flag that takes entries separated by commas, or nothing.
func list(target *string, kind string, check func(entry string) error) flagValue[string] {
	return flagValue[string]{target, kind, func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		entries := strings.Split(text, ",")
		for i := range entries {
			entries[i] = strings.TrimSpace(entries[i])
			if err := check(entries[i]); err != nil {
				return "", err
			}
		}
		return strings.Join(entries, ","), nil
	}, asGiven}
}

func splitList(text string) []string {
	var entries []string
	for _, entry := range strings.Split(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

func replyPrefixes(target *string) flagValue[string] {
	return list(target, "subjects", natsapi.CheckReplyPrefix)
}
