package entry

import (
	"testing"
	"time"
)

func TestParseLife(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                     0,
		"never":                0,
		"1s":                   time.Second,
		"1500ms":               time.Second,
		"2m0s":                 2 * time.Minute,
		"120":                  2 * time.Minute,
		"-1s":                  0,
		"-1":                   0,
		"x":                    0,
		"9223372036854775807":  0,
		"99999999999999999999": 0,
	} {
		if got := parseLife(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for d, want := range map[time.Duration]string{time.Second: "1s", time.Second + 1: "2s", time.Hour: "3600s"} {
		if got := FormatLife(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestOutlivesRoundTrip(t *testing.T) {
	at := time.Unix(1795218878, 144_510_001)
	got := parseOutlives(FormatOutlives(at))
	if got.Before(at) || got.Sub(at) >= time.Millisecond {
		t.Errorf("got %v, want %v or a little later", got, at)
	}
	if got := parseOutlives("x"); !got.IsZero() {
		t.Errorf("x: got %v", got)
	}
}

func TestOutlive(t *testing.T) {
	now := time.Unix(1795218878, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		name      string
		life      time.Duration
		marker    bool
		revivable time.Time
		want      time.Duration
		outlives  time.Time
	}{
		{"marker of nothing", MarkerTTL, true, time.Time{}, MarkerTTL, time.Time{}},
		{"marker of what is about to end", MarkerTTL, true, in(MarkerTTL - MarkerSlack), MarkerTTL, time.Time{}},
		{"marker of a lease", MarkerTTL, true, in(time.Hour), time.Hour + MarkerSlack, in(time.Hour)},
		{"marker of what has no TTL", MarkerTTL, true, endless, DeletedLife + MarkerSlack, in(DeletedLife)},
		{"value after nothing", time.Minute, false, time.Time{}, time.Minute, time.Time{}},
		{"value after a shorter one", time.Hour, false, in(time.Minute), time.Hour, time.Time{}},
		{"value after a longer one", time.Minute, false, in(time.Hour), time.Hour, in(time.Hour)},
		{"value without a TTL", 0, false, in(time.Hour), 0, time.Time{}},
		{"deletion of what has no TTL", DeletedLife, false, endless, DeletedLife, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, outlives := Outlive(c.life, c.marker, c.revivable, now)
			if got != c.want || !outlives.Equal(c.outlives) {
				t.Errorf("got %v, outlives %v; want %v, %v", got, outlives, c.want, c.outlives)
			}
		})
	}
}

func TestRevivable(t *testing.T) {
	now := time.Unix(1795218878, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		name string
		e    Entry
		want time.Time
	}{
		{"value", Entry{Life: time.Hour}, in(time.Hour)},
		{"value without a TTL", Entry{}, endless},
		{"raised", Entry{Life: time.Hour + time.Second, Outlives: in(time.Hour)}, in(time.Hour)},
		{"raised by a peer that lagged", Entry{Life: time.Hour + time.Minute, Outlives: in(time.Hour)}, in(time.Hour + time.Minute)},
		{"marker", Entry{Marker: true, Life: MarkerTTL}, time.Time{}},
		{"marker of a lease", Entry{Marker: true, Life: time.Hour + MarkerSlack, Outlives: in(time.Hour)}, in(time.Hour)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.Time = now
			if got := c.e.Revivable(); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
