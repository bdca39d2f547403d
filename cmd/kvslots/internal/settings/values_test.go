package settings

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/natsapi"
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
		{"1.5", 1500 * time.Millisecond, true},
		{".5", 500 * time.Millisecond, true},
		{"1d", 24 * time.Hour, true},
		{"1.5d", 36 * time.Hour, true},
		{"2000000d", 24 * MaxDuration, true}, // no flag takes it
		{".", 0, false},
		{"d", 0, false},
		{".d", 0, false},
		{"-1d", 0, false},
		{"1e3", 0, false},
		{"1h30", 0, false},
		{"99999999999999999999d", 0, false},
		{"-1", 0, false},
		{" 1", 0, false},
		{"1 h", 0, false},
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

func TestWait(t *testing.T) {
	for text, want := range map[string]time.Duration{"1.5": 1500 * time.Millisecond, "0": 0, "1d": 24 * time.Hour, "forever": Forever, "366d": -1, "soon": -1, "2000000d": -1} {
		got := time.Duration(-1)
		if err := Wait(&got, -1).Set(text); (err != nil) != (want < 0) || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, value := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "60s": time.Minute, "5400s": 90 * time.Minute,
		"1h": time.Hour, "8760h": MaxDuration, "250ms": 250 * time.Millisecond,
	} {
		if got := FormatDuration(value); got != want {
			t.Errorf("%v is written %s, want %s", int64(value), got, want)
		}
		if back, err := parseDuration(want); err != nil || back != value {
			t.Errorf("%s is read as %v, %v", want, back, err)
		}
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"0", 0, true},
		{"0.001", 0.001, true},
		{"2.5", 2.5, true},
		{"1000000", 1e6, true},
		{"0.0009", 0, false},
		{"1000001", 0, false},
		{"-1", 0, false},
		{"NaN", 0, false},
		{"Inf", 0, false},
		{"", 0, false},
		{"many", 0, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			var got float64
			err := Decimal(&got, 0.001, 1e6).Set(c.text)
			if got != c.want || (err == nil) != c.ok {
				t.Errorf("got %v, %v; want %v, ok %v", got, err, c.want, c.ok)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "512M": 512 << 20, "2G": 2 << 30, "1K": 1 << 10, "3T": 3 << 40, "1048576T": 1 << 60,
		"": -1, "M": -1, "-1": -1, "1KK": -1, "1.5G": -1, "1m": -1, "2097152T": -1, "+1": -1, "1 M": -1, "9999999999999999999": -1,
	} {
		got := int64(-1)
		if err := size(&got).Set(text); (err != nil) != (want < 0) || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestOrigins(t *testing.T) {
	for text, ok := range map[string]bool{
		"":                          true,
		"*":                         true,
		"https://example.com":       true,
		"http://localhost:3000":     true,
		"http://[::1]:3000":         true,
		"HTTPS://Example.com":       true,
		"capacitor://localhost":     true,
		"https://a.b, http://c.d":   true,
		"https://a.b,*":             true,
		"https://example.com/":      false,
		"https://example.com/x":     false,
		"https://example.com?x":     false,
		"https://example.com#x":     false,
		"https://u:p@example.com":   false,
		"https://example.com:":      false,
		"https://example.com:http":  false,
		"https://example.com:99999": false,
		"https://*.example.com":     false,
		"https://":                  false,
		"https://:80":               false,
		"//example.com":             false,
		"example.com":               false,
		"example.com:80":            false,
		"null":                      false,
		",":                         false,
		"https://a.b,":              false,
		"https://a.b https://c.d":   false,
	} {
		var got []string
		if err := texts(&got, "origins", checkOrigin).Set(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", text, err, ok)
		}
	}
	var got []string
	flag := texts(&got, "origins", checkOrigin)
	if err := flag.Set(" https://a.b ,http://c.d"); err != nil || len(got) != 2 || flag.String() != "https://a.b,http://c.d" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestReplyPrefixes(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "app": "app", "app.inbox, _INBOX_x ,b": "app.inbox,_INBOX_x,b",
	} {
		var got []string
		flag := texts(&got, "subjects", natsapi.CheckReplyPrefix)
		if err := flag.Set(text); err != nil || flag.String() != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{",", "a,", "a,,b", "a.>", "$KV", "a,$JS.API", "kvslots.x", "_GR_", " "} {
		got := []string{"kept"}
		if err := texts(&got, "subjects", natsapi.CheckReplyPrefix).Set(text); err == nil || got[0] != "kept" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:65535": true, "localhost:80": true,
		"127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.0.0.1:": false, "127.0.0.1": false, "127.0.0.1:http": false,
	} {
		var got string
		if err := address(&got, "").Set(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
		if err := loopback(&got).Set(text); (err == nil) != want {
			t.Errorf("loopback %q: %v", text, err)
		}
	}
}
