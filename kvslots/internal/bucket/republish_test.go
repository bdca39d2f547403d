package bucket

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// earlier creates the stream as an earlier release did.
func earlier(t *testing.T, nc *nats.Conn, replicas int) *jetstream.StreamInfo {
	t.Helper()
	js := natstest.JetStream(t, nc)
	c := StreamConfig(replicas)
	c.RePublish = nil
	c.Metadata = map[string]string{"owner": "ops"}
	stream, err := js.CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), SubjectPrefix+"foreign", nil); err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo()
}

func streamOf(t *testing.T, nc *nats.Conn) *jetstream.StreamInfo {
	t.Helper()
	js := natstest.JetStream(t, nc)
	stream, err := js.Stream(t.Context(), StreamName)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo()
}

// Peers that come to a bucket of the earlier release together add the feed, change nothing
// else, and all live on the same one. The bucket survives a restart of the server.
func TestBucketOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir())
	before := earlier(t, dial(t, srv), 1)
	var mu sync.Mutex
	var buckets []*Bucket
	var opening sync.WaitGroup
	for range 4 {
		nc := dial(t, srv)
		opening.Go(func() {
			b := openBucket(t, nc, Config{})
			mu.Lock()
			defer mu.Unlock()
			buckets = append(buckets, b)
		})
	}
	opening.Wait()
	if len(buckets) < 4 {
		t.FailNow()
	}
	registers(t, buckets[0], "a")
	for range 2 {
		for _, b := range buckets {
			natstest.Eventually(t, "the pool is there", func() bool { return count(t, b, "a") == 3 })
			live(t, b)
		}
		after := streamOf(t, dial(t, srv))
		if after.Config.RePublish == nil || !isFeed(after.Config.RePublish) {
			t.Fatalf("republishes %+v", after.Config.RePublish)
		}
		if after.Created != before.Created || after.Config.FirstSeq != before.Config.FirstSeq || after.State.FirstSeq != before.Config.FirstSeq ||
			after.Config.Metadata["owner"] != "ops" || after.Config.SubjectDeleteMarkerTTL != before.Config.SubjectDeleteMarkerTTL {
			t.Errorf("%+v became %+v", before.Config, after.Config)
		}
		srv.Restart()
	}
}

// A peer subscribes to another feed when the stream has another one: a peer that added it at
// the same time was later.
func TestFeedReplaced(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	b := openBucket(t, nc, Config{})
	live(t, b)
	c := streamOf(t, nc).Config
	c.RePublish = NewFeed()
	if _, err := b.js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
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
	for _, r := range []jetstream.RePublish{
		{Source: SubjectPrefix + ">", Destination: "mine.>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS.feed.>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS." + token + ".more.>"},
		{Source: SubjectPrefix + "p.>", Destination: "_KVSLOTS." + token + ".>"},
		{Source: SubjectPrefix + ">", Destination: "_KVSLOTS." + token + ".>", HeadersOnly: true},
	} {
		c := StreamConfig(1)
		c.RePublish = &r
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

// Open says which permission is missing to add the feed.
func TestFeedNotAdded(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "", restricted(&server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.UPDATE.>"}}}))
	earlier(t, connectAs(t, srv, "admin"), 1)
	began := time.Now()
	_, err := Open(t.Context(), connectAs(t, srv, "kvslots"), Config{Logger: logtest.Logger()})
	if !errors.Is(err, errNoFeed) || !strings.Contains(err.Error(), "$JS.API.STREAM.UPDATE.KV_kvslots") {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
