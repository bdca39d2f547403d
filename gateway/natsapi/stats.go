package natsapi

import (
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/mod/semver"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// counters are the numbers in STATS, by subject.
type counters map[string]*counter

type counter struct {
	subject string // of the endpoint

	received, answered, failed, open atomic.Int64

	spent     atomic.Int64 // nanoseconds from arrival to answer, of all answered
	lastError atomic.Pointer[string]
}

func newCounters(endpoints []endpoint) counters {
	c := counters{}
	for _, e := range endpoints {
		c[e.subject] = &counter{subject: e.subject}
	}
	return c
}

func (c *counter) done(arrived time.Time) {
	c.answered.Add(1)
	c.spent.Add(int64(time.Since(arrived)))
}

// fail counts an answer that is an error, beside done.
func (c *counter) fail(status wire.Status) {
	c.failed.Add(1)
	c.lastError.Store(new(strconv.Itoa(status.Code) + ":" + status.Text)) // as micro writes it
}

// endpointStats is the field "data" in STATS.
type endpointStats struct {
	Answered int64 `json:"answered"`
	Errors   int64 `json:"errors"`
	Open     int64 `json:"open"`
}

// stats returns the numbers of an endpoint in STATS. The times are from a request's
// arrival to its answer, and include the wait for a slot.
func (c *counter) stats(e endpoint) (*micro.EndpointStats, error) {
	s := &micro.EndpointStats{
		Name: e.name(), Subject: e.subject, QueueGroup: e.queue(),
		NumRequests:    int(c.received.Load()),
		NumErrors:      int(c.failed.Load()),
		ProcessingTime: time.Duration(c.spent.Load()),
	}
	answered := c.answered.Load()
	if answered > 0 {
		s.AverageProcessingTime = s.ProcessingTime / time.Duration(answered)
	}
	if text := c.lastError.Load(); text != nil {
		s.LastError = *text
	}
	var err error
	s.Data, err = wire.Encode(endpointStats{Answered: answered, Errors: c.failed.Load(), Open: c.open.Load()})
	return s, err
}

var notInMeta = regexp.MustCompile(`[^0-9A-Za-z-]+`)

// semantic makes a semantic version of any text, since micro requires one.
func semantic(text string) string {
	version := "v" + strings.TrimPrefix(text, "v")
	if full := semver.Canonical(version); full != "" && strings.HasPrefix(version, full) { // not shortened, as v1 is
		return version[1:]
	}
	if text == "" {
		return "0.0.0"
	}
	return "0.0.0+" + notInMeta.ReplaceAllString(text, "-")
}
