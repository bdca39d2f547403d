package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// ErrWrongBucket is returned by Open when the bucket exists with settings that
// kvslots cannot work with; the error's text names each of them.
var ErrWrongBucket = errors.New("the bucket has a wrong configuration")

// JetStream's codes while a cluster is forming.
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotAvailable jetstream.ErrorCode = 10008
)

// openStream looks up the bucket's stream, or creates it. While the cluster is not
// ready it tries again, until ctx ends. It never updates a stream: an update that
// raises the first sequence makes the server purge the stream at its next start.
func openStream(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.Stream, error) {
	for limit := minRequest; ; limit = min(2*limit, maxRequest) {
		stream, err := findOrCreate(ctx, js, replicas, limit)
		switch {
		case err == nil:
			return stream, CheckSettings(stream.CachedInfo().Config)
		case errors.Is(err, ErrRestoring):
			return nil, err
		case ctx.Err() != nil, !isTransient(err), !pause(ctx, openRetry):
			return nil, notOpened(ctx, err)
		}
	}
}

func findOrCreate(ctx context.Context, js jetstream.JetStream, replicas int, limit time.Duration) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stream, err := js.Stream(ctx, StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = mayCreate(ctx, js); err == nil {
			stream, err = js.CreateStream(ctx, StreamConfig(replicas))
		}
	}
	return stream, err
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
		SubjectDeleteMarkerTTL: rules.MarkerTTL,
		// A fence is a revision. The fences of a new bucket must be above those of an
		// earlier one, so revisions start at the microseconds since 1970.
		FirstSeq: uint64(time.Now().UnixMicro()),
	}
}

// CheckSettings returns ErrRestoring, or ErrWrongBucket with each wrong setting, or nil.
func CheckSettings(c jetstream.StreamConfig) error {
	if c.Metadata[RestoreKey] != "" {
		return ErrRestoring
	}
	if wrong := wrongSettings(c); len(wrong) > 0 {
		return fmt.Errorf("%w: stream %s: %s", ErrWrongBucket, StreamName, strings.Join(wrong, "; "))
	}
	return nil
}

// Wrong lists what is wrong with the settings of a stream.
type Wrong []string

// Check adds a text unless ok.
func (w *Wrong) Check(ok bool, format string, args ...any) {
	if !ok {
		*w = append(*w, fmt.Sprintf(format, args...))
	}
}

// CheckBasics checks the settings without which no key could be written with a TTL.
func (w *Wrong) CheckBasics(c jetstream.StreamConfig, subjects string) {
	w.Check(len(c.Subjects) == 1 && c.Subjects[0] == subjects, "subjects are %q, not %q", c.Subjects, subjects)
	w.Check(c.AllowMsgTTL, "allow_msg_ttl is off")
	w.Check(!c.Sealed, "the stream is sealed")
}

// wrongSettings returns each setting that kvslots cannot work with.
func wrongSettings(c jetstream.StreamConfig) (wrong Wrong) {
	wrong.CheckBasics(c, SubjectPrefix+">")
	wrong.Check(c.Storage == jetstream.FileStorage, "storage is %s, not file", c.Storage)
	wrong.Check(c.Retention == jetstream.LimitsPolicy, "retention is %s, not limits", c.Retention)
	wrong.Check(c.MaxMsgsPerSubject == 1, "max_msgs_per_subject (history) is %d, not 1", c.MaxMsgsPerSubject)
	wrong.Check(c.MaxAge == 0, "max_age is %s, not 0", c.MaxAge)
	wrong.Check(c.MaxMsgs <= 0 && c.MaxBytes <= 0, "max_msgs is %d and max_bytes is %d, not unlimited", c.MaxMsgs, c.MaxBytes)
	wrong.Check(c.SubjectDeleteMarkerTTL >= minMarkerTTL, "subject_delete_marker_ttl is %s, not %s or more", c.SubjectDeleteMarkerTTL, minMarkerTTL)
	wrong.Check(c.AllowDirect, "allow_direct is off")
	wrong.Check(c.FirstSeq > 1<<40, "first_seq is %d: fences could go back when the bucket is made anew", c.FirstSeq)
	wrong.Check(c.Mirror == nil && len(c.Sources) == 0, "the stream is a mirror or has sources")
	return wrong
}
