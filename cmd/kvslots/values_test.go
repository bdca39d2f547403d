package main

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"30s", 30 * time.Second, true},
		{"1h", time.Hour, true},
		{"1h30m", 90 * time.Minute, true},
		{"250ms", 250 * time.Millisecond, true},
		{"30", 30 * time.Second, true},
		{"0", 0, true},
		{"", 0, false},
		{"1.5", 0, false},
		{"-1", 0, false},
		{" 1", 0, false},
		{"1 h", 0, false},
		{"1d", 0, false},
		{"99999999999999999999", 0, false},
		{"9999999999999999999", 0, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := parseDuration(c.text)
			if got != c.want || (err == nil) != c.ok {
				t.Errorf("got %v, %v; want %v, ok %v", got, err, c.want, c.ok)
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for want, value := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "60s": time.Minute, "5400s": 90 * time.Minute,
		"1h": time.Hour, "8760h": maxDuration, "250ms": 250 * time.Millisecond,
	} {
		if got := formatDuration(value); got != want {
			t.Errorf("%v is written %s, want %s", int64(value), got, want)
		}
		if back, err := parseDuration(want); err != nil || back != value {
			t.Errorf("%s is read as %v, %v", want, back, err)
		}
	}
}
