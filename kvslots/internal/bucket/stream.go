package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Name is the name of the KV bucket; its stream is StreamName, and each key's
// subject begins with SubjectPrefix.
const (
	Name          = "kvslots"
	StreamName    = "KV_" + Name
	SubjectPrefix = "$KV." + Name + "."
)

const (
	openRetry = 50 * time.Millisecond

	// minRequest is the timeout of the first request, doubled for each further one up
	// to maxRequest: a server that does not know the leader yet drops requests.
	minRequest = 500 * time.Millisecond
	maxRequest = 8 * time.Second

	// minMarkerTTL is the shortest life of limit markers that kvslots accepts in a
	// bucket that another tool created.
	minMarkerTTL = time.Minute
)

var ErrWrongBucket = errors.New("the bucket has a wrong configuration")

// JetStream's codes while a cluster is forming.
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotAvailable jetstream.ErrorCode = 10008
)

// openStream looks up the bucket's stream, or creates it. While the cluster is not
// ready it tries again, until ctx ends.
func openStream(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.Stream, error) {
	for limit := minRequest; ; limit = min(2*limit, maxRequest) {
		stream, err := findOrCreate(ctx, js, replicas, limit)
		switch {
		case err == nil:
			return stream, nil
		case errors.Is(err, ErrWrongBucket):
			return nil, err
		case ctx.Err() != nil, !isTransient(err), !clock.Sleep(ctx, openRetry):
			return nil, notOpened(ctx, err)
		}
	}
}

func findOrCreate(ctx context.Context, js jetstream.JetStream, replicas int, limit time.Duration) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stream, err := js.Stream(ctx, StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, StreamConfig(replicas))
	}
	if err != nil {
		return nil, err
	}
	return stream, CheckSettings(stream.CachedInfo().Config)
}

// isTransient reports whether to try again. "Name in use" means that another peer is
// creating the stream: on a cluster it may then not be found for a while.
func isTransient(err error) bool {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		switch refused.ErrorCode {
		case jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeStreamNotFound, codeNoPeers, codeNotAvailable:
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func notOpened(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: bucket %s: %w: %w", peer.ErrUnavailable, Name, explain(err), cause)
	}
	return fmt.Errorf("%w: bucket %s: %w", peer.ErrUnavailable, Name, explain(err))
}

// explain returns what an operator can do about a failed request to JetStream, if the error
// does not say so.
func explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: %w", errNoServer, err)
	case errors.Is(err, context.DeadlineExceeded): // of the request, not of the caller's context
		return errNoServer
	}
	return err
}

// StreamConfig returns the configuration with which Open creates the stream.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   StreamName,
		Description:            "kvslots: pools, slots, tickets and sessions",
		Subjects:               []string{SubjectPrefix + ">"},
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		DenyDelete:             true,
		AllowRollup:            true,
		AllowDirect:            true,
		AllowMsgTTL:            true,
		RePublish:              NewFeed(),
		SubjectDeleteMarkerTTL: rules.MarkerTTL,
		// The revisions of a new bucket are above those of an earlier one, which a peer may
		// still expect, so they start at the microseconds since 1970.
		FirstSeq: uint64(time.Now().UnixMicro()),
		Metadata: map[string]string{FormatKey: strconv.Itoa(entry.Format), IDKey: rand.Text()},
	}
}

// CheckSettings returns ErrWrongBucket, with the format or each wrong setting, or nil.
func CheckSettings(c jetstream.StreamConfig) error {
	if err := checkFormat(c); err != nil {
		return err
	}
	if wrong := wrongSettings(c); len(wrong) > 0 {
		return fmt.Errorf("%w: stream %s: %s", ErrWrongBucket, StreamName, strings.Join(wrong, "; "))
	}
	return nil
}

type Wrong []string

func (w *Wrong) Check(ok bool, format string, args ...any) {
	if !ok {
		*w = append(*w, fmt.Sprintf(format, args...))
	}
}

// CheckBasics checks the settings without which no key could be written with a TTL, or an
// entry could be lost before its TTL.
func (w *Wrong) CheckBasics(c jetstream.StreamConfig, subjects string) {
	w.Check(len(c.Subjects) == 1 && c.Subjects[0] == subjects, "subjects are %q, not %q", c.Subjects, subjects)
	w.Check(c.AllowMsgTTL, "allow_msg_ttl is off")
	w.Check(!c.Sealed, "the stream is sealed")
	w.Check(c.Storage == jetstream.FileStorage, "storage is %s, not file", c.Storage)
	w.Check(c.Retention == jetstream.LimitsPolicy, "retention is %s, not limits", c.Retention)
	w.Check(c.MaxAge == 0, "max_age is %s, not 0", c.MaxAge)
	w.Check(c.Mirror == nil && len(c.Sources) == 0, "the stream is a mirror or has sources")
}

func wrongSettings(c jetstream.StreamConfig) (wrong Wrong) {
	wrong.CheckBasics(c, SubjectPrefix+">")
	wrong.Check(c.MaxMsgsPerSubject == 1, "max_msgs_per_subject (history) is %d, not 1", c.MaxMsgsPerSubject)
	wrong.Check(c.MaxMsgs <= 0 && c.MaxBytes <= 0, "max_msgs is %d and max_bytes is %d, not unlimited", c.MaxMsgs, c.MaxBytes)
	wrong.Check(c.SubjectDeleteMarkerTTL >= minMarkerTTL, "subject_delete_marker_ttl is %s, not %s or more", c.SubjectDeleteMarkerTTL, minMarkerTTL)
	wrong.Check(c.AllowDirect, "allow_direct is off")
	wrong.Check(c.FirstSeq > 1<<40, "first_seq is %d: revisions could go back when the bucket is made anew", c.FirstSeq)
	wrong.Check(IsID(c.Metadata[IDKey]), "metadata %s is %.30q, not 26 of A-Z and 2-7", IDKey, c.Metadata[IDKey])
	wrong.Check(isFeed(c.RePublish), "republish is not from %s> to %s<token>.> with bodies", SubjectPrefix, feedPrefix)
	return wrong
}

// missingTime is how long the stream must have been missing before the Bucket creates it
// again: a server that enables JetStream for an account at first finds none of its streams.
const missingTime = 3 * time.Second

// streamInfo returns the stream's state, if its leader tells it within limit. If the stream has
// been missing for missingTime, streamInfo creates an empty one.
func (b *Bucket) streamInfo(ctx context.Context, limit time.Duration) (*jetstream.StreamInfo, error) {
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info, err := b.stream.Info(asked)
	if err == nil {
		b.missingSince = 0
		b.replicas = info.Config.Replicas
		b.id.Store(new(info.Config.Metadata[IDKey]))
		return info, CheckSettings(info.Config)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	if b.missingSince == 0 {
		b.missingSince = b.now()
	}
	if b.now().Sub(b.missingSince) < missingTime {
		return nil, err
	}
	stream, err := openStream(ctx, b.js, b.replicas)
	if err != nil {
		return nil, err
	}
	b.stream, b.missingSince = stream, 0
	info = stream.CachedInfo()
	b.id.Store(new(info.Config.Metadata[IDKey]))
	if info.State.Msgs == 0 { // otherwise another peer may have created it
		b.log.Warn("an operator or a program has deleted the bucket, or NATS has lost it; its pools and leases are lost, " +
			"and an empty bucket was created; to get the pools back from a backup: kvslots restore")
	}
	return info, nil
}
