package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
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
)

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
