package bucket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

const (
	feedPrefix   = subjects.Gateway + "."
	feedSubjects = feedPrefix + ">"

	minToken = 20 // characters of a feed's token

	updateSubject = "$JS.API.STREAM.UPDATE." + StreamName
)

// errNoFeed is returned by Open if the stream does not republish its entries, and this
// account may not change that.
var errNoFeed = errors.New("the bucket is of an earlier release, and this account may not update it: permit it to publish to " +
	updateSubject + ", or run nats stream edit " + StreamName + " --republish-source '" + SubjectPrefix + ">' --republish-destination '" +
	feedPrefix + "<a random text of 26 letters and digits>.>'")

// NewFeed returns how a new stream republishes its entries. The subjects contain a random
// token, since a NATS server does not check whether a client may publish to the reply subject
// that it names: a client that knew the token could forge an entry.
func NewFeed() *jetstream.RePublish {
	return &jetstream.RePublish{Source: SubjectPrefix + ">", Destination: feedPrefix + rand.Text() + ".>"}
}

// isFeed reports whether a stream republishes its entries as kvslots needs it.
func isFeed(r *jetstream.RePublish) bool {
	token, below := strings.CutPrefix(r.Destination, feedPrefix)
	token, all := strings.CutSuffix(token, ".>")
	return r.Source == SubjectPrefix+">" && !r.HeadersOnly && below && all && len(token) >= minToken && !strings.ContainsAny(token, ".*> ")
}

// feedSubject returns the subject of the entries that a stream republishes.
func feedSubject(c jetstream.StreamConfig) string { return c.RePublish.Destination }

// addFeed has a stream of an earlier release republish its entries. It changes nothing else,
// also no setting that this version of nats.go does not know: an update that raises the first
// sequence makes the server purge the stream at its next start. If several peers add a feed
// at the same time, the last one wins, so the result must be read from the stream.
func addFeed(ctx context.Context, nc *nats.Conn) error {
	var found struct {
		Error  *jetstream.APIError        `json:"error"`
		Config map[string]json.RawMessage `json:"config"`
	}
	if err := request(ctx, nc, "$JS.API.STREAM.INFO."+StreamName, nil, &found); err != nil {
		return err
	}
	if found.Error != nil {
		return found.Error
	}
	feed, err := json.Marshal(NewFeed())
	if err != nil {
		return err
	}
	if found.Config["republish"] != nil {
		return nil // another peer was faster
	}
	found.Config["republish"] = feed
	config, err := json.Marshal(found.Config)
	if err != nil {
		return err
	}
	var updated struct {
		Error *jetstream.APIError `json:"error"`
	}
	before := nc.LastError()
	switch err := request(ctx, nc, updateSubject, config, &updated); {
	case err != nil && isDenied(nc, updateSubject, before):
		return errNoFeed
	case err != nil:
		return fmt.Errorf("the stream was not updated: %w", err)
	case updated.Error != nil:
		return updated.Error
	}
	return nil
}

func request(ctx context.Context, nc *nats.Conn, subject string, data []byte, answer any) error {
	m, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, answer)
}
