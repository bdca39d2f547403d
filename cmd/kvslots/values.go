package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
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
