package natsapi

import (
	"regexp"
	"sync/atomic"

	"github.com/nats-io/nats.go/micro"
)

// counters are what STATS says of each endpoint beyond micro's own numbers,
// which see a request as done once it has a goroutine.
type counters map[string]*counter

type counter struct{ answered, failed, open atomic.Int64 }

// newCounters makes all of them: STATS may be asked for while endpoints are
// still being added.
func newCounters(endpoints []endpoint) counters {
	c := counters{}
	for _, e := range endpoints {
		c[e.name] = &counter{}
	}
	return c
}

// endpointStats is the field "data" in STATS.
type endpointStats struct {
	Answered int64 `json:"answered"`
	Errors   int64 `json:"errors"`
	Open     int64 `json:"open"`
}

func (c counters) stats(e *micro.Endpoint) any {
	count := c[e.Name]
	if count == nil {
		return endpointStats{}
	}
	return endpointStats{
		Answered: count.answered.Load(),
		Errors:   count.failed.Load(),
		Open:     count.open.Load(),
	}
}

var (
	version   = regexp.MustCompile(`^v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?)$`)
	notInMeta = regexp.MustCompile(`[^0-9A-Za-z-]+`)
)

// semantic makes a semantic version, which micro insists on, of any.
func semantic(text string) string {
	if found := version.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	if text == "" {
		return "0.0.0"
	}
	return "0.0.0+" + notInMeta.ReplaceAllString(text, "-")
}
