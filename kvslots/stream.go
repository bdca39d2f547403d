package kvslots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Bucket is the name of the KV bucket; its stream is "KV_" + Bucket.
const Bucket = "kvslots"

const (
	streamName    = "KV_" + Bucket
	subjectPrefix = "$KV." + Bucket + "."

	// guard is how much longer than a lease, a wait or a session its key may
	// live. NATS's own expiry only sweeps up when no peer is alive: it is too
	// coarse and not safe enough to end a lease.
	guard = 10 * time.Minute

	// streamTimeout is how long JetStream may take to find or create the stream.
	streamTimeout = 10 * time.Second

	// minMarkerTTL is the shortest marker that a foreign bucket may have.
	minMarkerTTL = time.Minute
)

// bucketOf is the one place that says which bucket a pool is in.
func (s *Store) bucketOf(entry.Hash) *bucket { return s.bucket }

// openStream finds the bucket's stream, or creates it. It never updates one:
// an update that raises the first sequence makes the next start of the server
// purge the stream.
func openStream(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, streamConfig(replicas))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, streamName) // another peer was faster
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: JetStream does not answer; is it enabled for this account, and permitted?", ErrUnavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: bucket %s: %w", ErrUnavailable, Bucket, err)
	}
	if wrong := wrongSettings(stream.CachedInfo().Config); len(wrong) > 0 {
		return nil, fmt.Errorf("%w: stream %s: %s", ErrWrongBucket, streamName, strings.Join(wrong, "; "))
	}
	return stream, nil
}

func streamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   streamName,
		Description:            "kvslots: pools, slots, tickets and sessions",
		Subjects:               []string{subjectPrefix + ">"},
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		DenyDelete:             true,
		AllowRollup:            true,
		AllowDirect:            true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: entry.MarkerTTL,
		// A fence is a revision. A bucket made anew must go on above the old
		// one, so revisions start at the microseconds since 1970.
		FirstSeq: uint64(time.Now().UnixMicro()),
	}
}

// wrongSettings names each setting that kvslots cannot work with.
func wrongSettings(c jetstream.StreamConfig) []string {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(len(c.Subjects) == 1 && c.Subjects[0] == subjectPrefix+">", "subjects are %q, not %q", c.Subjects, subjectPrefix+">")
	check(c.Storage == jetstream.FileStorage, "storage is %s, not file", c.Storage)
	check(c.Retention == jetstream.LimitsPolicy, "retention is %s, not limits", c.Retention)
	check(c.MaxMsgsPerSubject == 1, "max_msgs_per_subject (history) is %d, not 1", c.MaxMsgsPerSubject)
	check(c.MaxAge == 0, "max_age is %s, not 0", c.MaxAge)
	check(c.MaxMsgs <= 0 && c.MaxBytes <= 0, "max_msgs is %d and max_bytes is %d, not unlimited", c.MaxMsgs, c.MaxBytes)
	check(c.AllowMsgTTL, "allow_msg_ttl is off")
	check(c.SubjectDeleteMarkerTTL >= minMarkerTTL, "subject_delete_marker_ttl is %s, not %s or more", c.SubjectDeleteMarkerTTL, minMarkerTTL)
	check(c.AllowDirect, "allow_direct is off")
	check(c.FirstSeq > 1<<40, "first_seq is %d: fences could go back when the bucket is made anew", c.FirstSeq)
	check(!c.Sealed, "the stream is sealed")
	check(c.Mirror == nil && len(c.Sources) == 0, "the stream is a mirror or has sources")
	return wrong
}
