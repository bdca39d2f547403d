package cosmo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// DefaultBucket is the KV bucket of a Limiter whose Config.Bucket is "".
const DefaultBucket = "cosmo_jobs_limits"

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Config configures a Limiter. The zero Config is valid.
type Config struct {
	// Bucket is the KV bucket; "" means DefaultBucket. All workers that share a
	// limit must use the same bucket. Cosmo has renamed its bucket once.
	Bucket string

	// Replicas is the number of replicas if New creates the bucket, 1 … 5; 0 means
	// 1, as in Cosmo.
	Replicas int
}

// New returns a Limiter on the bucket of cfg. If the bucket does not exist, New creates
// it as Cosmo does. New does not change an existing bucket. The caller keeps the
// connection, and must not close it before the last use of the Limiter.
//
// The errors are natsstore.ErrWrongBucket if no slot could be acquired or
// released in the bucket, or an entry could be lost before the end of its duration;
// kvslots.ErrUnavailable; a *RangeError for cfg; and the cause of ctx.
func New(ctx context.Context, nc *nats.Conn, cfg Config) (*Limiter, error) {
	cfg.Bucket, cfg.Replicas = cmp.Or(cfg.Bucket, DefaultBucket), cmp.Or(cfg.Replicas, 1)
	switch {
	case !bucketName.MatchString(cfg.Bucket):
		return nil, &kvslots.RangeError{Field: "bucket", Range: "1 to 64 letters, digits, - and _"}
	case cfg.Replicas < 1 || cfg.Replicas > 5:
		return nil, &kvslots.RangeError{Field: "replicas", Range: "between 1 and 5"}
	}
	l, err := open(ctx, nc, cfg)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("bucket %s: %w", cfg.Bucket, err))
	}
	config := l.stream.CachedInfo().Config
	if wrong := wrongSettings(config, cfg); len(wrong) > 0 {
		return nil, fmt.Errorf("%w: stream %s: %s", natsstore.ErrWrongBucket, config.Name, strings.Join(wrong, "; "))
	}
	return l, nil
}

func open(ctx context.Context, nc *nats.Conn, cfg Config) (l *Limiter, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	l = &Limiter{}
	config := bucketConfig(cfg)
	if l.stream, err = js.Stream(ctx, config.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
		l.stream, err = js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			l.stream, err = js.Stream(ctx, config.Name) // another worker has created it
		}
	}
	if err != nil {
		return nil, err
	}
	l.kv, err = js.KeyValue(ctx, cfg.Bucket)
	return l, err
}

// bucketConfig is the configuration with which Cosmo creates a missing bucket. In particular there
// are no limit markers, which CreateKeyValue wants for TTLs: a marker would prevent a Ruby worker
// from taking a slot again.
func bucketConfig(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + cfg.Bucket,
		Subjects:          []string{subjects(cfg)},
		Storage:           jetstream.FileStorage,
		Replicas:          cfg.Replicas,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		AllowRollup:       true,
	}
}

func subjects(cfg Config) string { return "$KV." + cfg.Bucket + ".>" }

// wrongSettings describes the settings with which no slot could be acquired or released,
// or NATS could remove an entry before its duration ends: the slot could then be acquired
// by another job. All other settings of an existing bucket are accepted.
func wrongSettings(c jetstream.StreamConfig, cfg Config) (wrong []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	want := subjects(cfg)
	check(len(c.Subjects) == 1 && c.Subjects[0] == want, "subjects are %q, not %q", c.Subjects, want)
	check(c.AllowMsgTTL, "allow_msg_ttl is off")
	check(!c.Sealed, "the stream is sealed")
	check(c.Storage == jetstream.FileStorage, "storage is %s, not file", c.Storage)
	check(c.Retention == jetstream.LimitsPolicy, "retention is %s, not limits", c.Retention)
	check(c.MaxAge == 0, "max_age is %s, not 0", c.MaxAge)
	check(c.Mirror == nil && len(c.Sources) == 0, "the stream is a mirror or has sources")
	check(c.Discard == jetstream.DiscardNew || c.MaxMsgs <= 0 && c.MaxBytes <= 0,
		"max_msgs is %d and max_bytes is %d with discard %s, not unlimited or with discard new", c.MaxMsgs, c.MaxBytes, c.Discard)
	check(!c.DenyPurge, "deny_purge is on")
	return wrong
}
