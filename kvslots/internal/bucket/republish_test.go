package bucket

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func streamOf(t *testing.T, nc *nats.Conn) *jetstream.StreamInfo {
	t.Helper()
	js := natstest.JetStream(t, nc)
	stream, err := js.Stream(t.Context(), StreamName)
	natstest.Must(t, err)
	return stream.CachedInfo()
}

// A peer subscribes to another feed when an operator has given the stream another one.
func TestFeedReplaced(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	b := openBucket(t, nc, Config{})
	live(t, b)
	c := streamOf(t, nc).Config
	c.RePublish = NewFeed()
	natstest.Must(t, natstest.Err(b.js.UpdateStream(t.Context(), c)))
	natstest.Eventually(t, "the peer has subscribed to the other feed", func() bool {
		sub := b.feed.entries.Load()
		return sub != nil && sub.Subject == c.RePublish.Destination
	})
	live(t, b)
}

// Open refuses a stream that republishes otherwise, and does not change it.
func TestOtherRepublishing(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("A", 26)
	for _, r := range []*jetstream.RePublish{
		nil,
		{Source: SubjectPrefix + ">", Destination: "mine.>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS.feed.>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS." + token + ".more.>"},
		{Source: SubjectPrefix + "p.>", Destination: "_KVSLOTS." + token + ".>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS." + token + ".>", HeadersOnly: true},
	} {
		c := StreamConfig(1)
		c.RePublish = r
		if err := CheckSettings(c); !errors.Is(err, ErrWrongBucket) || !strings.Contains(err.Error(), "republish") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for range 2 {
		if err := CheckSettings(StreamConfig(1)); err != nil {
			t.Error(err)
		}
	}
}
