package bucket

import (
	"crypto/rand"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

const (
	feedPrefix   = subjects.Gateway + "."
	feedSubjects = feedPrefix + ">"

	minToken = 20 // characters of a feed's token
)

// NewFeed returns how a new stream republishes its entries. The subjects contain a random
// token, since a NATS server does not check whether a client may publish to the reply subject
// that it names: a client that knew the token could forge an entry.
func NewFeed() *jetstream.RePublish {
	return &jetstream.RePublish{Source: SubjectPrefix + ">", Destination: feedPrefix + rand.Text() + ".>"}
}

// isFeed reports whether a stream republishes its entries as kvslots needs it.
func isFeed(r *jetstream.RePublish) bool {
	if r == nil {
		return false
	}
	token, below := strings.CutPrefix(r.Destination, feedPrefix)
	token, all := strings.CutSuffix(token, ".>")
	return r.Source == SubjectPrefix+">" && !r.HeadersOnly && below && all && len(token) >= minToken && !strings.ContainsAny(token, ".*> ")
}

// feedSubject returns the subject of the entries that a stream republishes.
func feedSubject(c jetstream.StreamConfig) string { return c.RePublish.Destination }
