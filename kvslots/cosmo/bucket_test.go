package cosmo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// Buckets are refused in which slots cannot be acquired or released, or in which NATS
// could remove an entry before its duration ends.
func TestLimiterRefusesUnusableBuckets(t *testing.T) {
	js, err := jetstream.New(kvslotstest.Start(t, "").Connect())
	natstest.Must(t, err)
	natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "source"})))
	for _, c := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string // "" if the bucket is accepted
	}{
		{"no-ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "allow_msg_ttl is off"},
		{"no-purge", func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = true, false }, "deny_purge is on"},
		{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere.>"} }, "subjects are"},
		{"interest", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, "retention is Interest, not limits"},
		{"work-queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention is WorkQueue, not limits"},
		{"max-age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age is 1h0m0s, not 0"},
		{"max-messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 }, "max_msgs is 100 and max_bytes is -1 with discard DiscardOld"},
		{"max-bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, "max_bytes is 1048576 with discard DiscardOld"},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage is Memory, not file"},
		{"sources", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "source"}} }, "has sources"},
		{"discard-new", func(c *jetstream.StreamConfig) {
			c.MaxMsgs, c.MaxBytes, c.Discard = 100, 1<<20, jetstream.DiscardNew
		}, ""},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, ""},
		{"no-direct", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, ""},
		{"limit-markers", func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Minute }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := bucketConfig(Config{Bucket: c.name, Replicas: 1})
			c.change(&config)
			natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), config)))
			_, err := New(t.Context(), js.Conn(), Config{Bucket: c.name})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, natsstore.ErrWrongBucket) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, config := range []Config{{Bucket: "a.b"}, {Bucket: "*"}, {Replicas: 6}, {Replicas: -1}} {
		if _, err := New(t.Context(), js.Conn(), config); err == nil {
			t.Errorf("%v was taken", config)
		}
	}
}
