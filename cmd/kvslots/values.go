package main

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/gateway/natsapi"
)

// The flags' types. Each checks its range in Set, so that the error can say
// where the value came from. Their errors do not repeat the value.

// duration is a flag such as "30s" or "1h"; a bare number is seconds.
type duration struct {
	value    *time.Duration
	min, max time.Duration
	whole    bool // seconds only
}

func (d duration) Set(text string) error {
	value, err := parseDuration(text)
	if err != nil {
		return err
	}
	if value < d.min || value > d.max {
		return fmt.Errorf("must be between %s and %s", formatDuration(d.min), formatDuration(d.max))
	}
	if d.whole && value%time.Second != 0 {
		return fmt.Errorf("must be whole seconds")
	}
	*d.value = value
	return nil
}

func (d duration) String() string {
	if d.value == nil { // pflag asks a zero value what it prints
		return ""
	}
	return formatDuration(*d.value)
}

func (d duration) Type() string { return "duration" }

func parseDuration(text string) (time.Duration, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		text += "s"
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`must be a duration such as "30s" or "1h", or a number of seconds`)
	}
	return value, nil
}

func formatDuration(value time.Duration) string {
	switch {
	case value != 0 && value%time.Hour == 0:
		return strconv.Itoa(int(value/time.Hour)) + "h"
	case value%time.Second == 0:
		return strconv.Itoa(int(value/time.Second)) + "s"
	}
	return value.String()
}

// choice is a flag that takes one of a few words.
type choice struct {
	value *string
	words []string
}

func (c choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	*c.value = text
	return nil
}

func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c choice) Type() string { return strings.Join(c.words, "|") }

// number is a flag that takes an integer in a range.
type number struct {
	value    *int
	min, max int
}

func (n number) Set(text string) error {
	value, err := strconv.Atoi(text)
	if err != nil || value < n.min || value > n.max {
		return fmt.Errorf("must be an integer between %d and %d", n.min, n.max)
	}
	*n.value = value
	return nil
}

func (n number) String() string {
	if n.value == nil {
		return ""
	}
	return strconv.Itoa(*n.value)
}

func (n number) Type() string { return "int" }

// decimal is a flag that takes 0 or a number in a range.
type decimal struct {
	value    *float64
	min, max float64
}

func (d decimal) Set(text string) error {
	value, err := strconv.ParseFloat(text, 64)
	// NaN is in no range.
	if err != nil || value != 0 && !(value >= d.min && value <= d.max) {
		return fmt.Errorf("must be 0, or a number between %s and %s", formatDecimal(d.min), formatDecimal(d.max))
	}
	*d.value = value
	return nil
}

func (d decimal) String() string {
	if d.value == nil {
		return ""
	}
	return formatDecimal(*d.value)
}

func (d decimal) Type() string { return "number" }

func formatDecimal(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// address is a flag that takes a host:port to listen on.
type address struct{ value *string }

func (a address) Set(text string) error {
	if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
		return fmt.Errorf(`must be host:port, such as "127.0.0.1:8080" or ":0"`)
	}
	*a.value = text
	return nil
}

func (a address) String() string {
	if a.value == nil {
		return ""
	}
	return *a.value
}

func (a address) Type() string { return "host:port" }

// port is a flag that takes the port of an address on this machine.
type port struct{ address *string }

func (p port) Set(text string) error {
	value, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("must be a port between 0 and 65535")
	}
	*p.address = net.JoinHostPort("127.0.0.1", strconv.FormatUint(value, 10))
	return nil
}

// String is empty: the address says it.
func (p port) String() string { return "" }

func (p port) Type() string { return "port" }

// origins is a flag that takes the origins of web pages. They are no secret:
// the error names the one that is wrong.
type origins struct{ value *string }

func (o origins) Set(text string) error {
	entries := strings.Split(text, ",")
	for i, entry := range entries {
		entries[i] = strings.TrimSpace(entry)
		if text != "" && !isOrigin(entries[i]) {
			return fmt.Errorf(`%q must be an origin such as "https://example.com" or "http://localhost:3000", or *`, entries[i])
		}
	}
	*o.value = strings.Join(entries, ",")
	return nil
}

func (o origins) String() string {
	if o.value == nil {
		return ""
	}
	return *o.value
}

func (o origins) Type() string { return "origins" }

// isOrigin accepts what a browser sends: a scheme and a host, a port where it
// is not the usual one, and no slash at the end.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Hostname() == "" || strings.ContainsAny(parsed.Host, "* ") {
		return false
	}
	if port := parsed.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	return strings.EqualFold(text, parsed.Scheme+"://"+parsed.Host) && !strings.HasSuffix(text, ":")
}

// replyPrefixes is a flag that takes the first words of reply subjects.
type replyPrefixes struct{ value *string }

func (p replyPrefixes) Set(text string) error {
	prefixes := strings.Split(text, ",")
	for i := range prefixes {
		prefixes[i] = strings.TrimSpace(prefixes[i])
		if text == "" {
			break
		}
		if err := natsapi.CheckReplyPrefix(prefixes[i]); err != nil {
			return err
		}
	}
	*p.value = strings.Join(prefixes, ",")
	return nil
}

func (p replyPrefixes) String() string {
	if p.value == nil {
		return ""
	}
	return *p.value
}

func (p replyPrefixes) Type() string { return "subjects" }

// splitList gives each entry of a list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
