package cosmo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// DefaultBucket is the KV bucket of a Limiter whose Config.Bucket is "".
const DefaultBucket = "cosmo_jobs_limits"

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (c Config) withDefaults() (Config, error) {
	c.Bucket, c.Replicas = cmp.Or(c.Bucket, DefaultBucket), cmp.Or(c.Replicas, 1)
	switch {
	case !bucketName.MatchString(c.Bucket):
		return c, &kvslots.RangeError{Field: "bucket", Range: "1 to 64 letters, digits, - and _"}
	case c.Replicas < 1 || c.Replicas > 5:
		return c, &kvslots.RangeError{Field: "replicas", Range: "between 1 and 5"}
	}
	return c, nil
}

// bucketConfig is the configuration with which Cosmo creates a missing bucket. Cosmo
// sends STREAM.CREATE itself, since the Ruby client's function for that drops
// allow_msg_ttl. All other settings are the server's defaults. In particular there
// are no limit markers: a marker would prevent a slot from being taken again.
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

func openBucket(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	name := "KV_" + cfg.Bucket
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, bucketConfig(cfg))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, name) // another worker has created it
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: bucket %s: %w", kvslots.ErrUnavailable, cfg.Bucket, err)
	}
	if wrong := wrongSettings(stream.CachedInfo().Config, cfg); len(wrong) > 0 {
		return fmt.Errorf("%w: stream %s: %s", natsstore.ErrWrongBucket, name, strings.Join(wrong, "; "))
	}
	return nil
}

// wrongSettings describes the settings with which no slot could be acquired or released,
// or NATS could remove an entry before its duration ends: the slot could then be acquired
// by another job. All other settings of an existing bucket are accepted.
func wrongSettings(c jetstream.StreamConfig, cfg Config) (wrong bucket.Wrong) {
	wrong.CheckBasics(c, subjects(cfg))
	wrong.Check(c.Discard == jetstream.DiscardNew || c.MaxMsgs <= 0 && c.MaxBytes <= 0,
		"max_msgs is %d and max_bytes is %d with discard %s, not unlimited or with discard new", c.MaxMsgs, c.MaxBytes, c.Discard)
	wrong.Check(!c.DenyPurge, "deny_purge is on")
	return wrong
}
