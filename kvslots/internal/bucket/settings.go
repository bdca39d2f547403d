package bucket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var ErrWrongBucket = errors.New("the bucket has a wrong configuration")

// minFirst is the least first revision of a bucket: see StreamConfig.
const minFirst = 1 << 40

// StreamConfig returns the configuration with which Open creates the stream.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   StreamName,
		Description:            "kvslots: pools, slots, tickets and sessions",
		Subjects:               []string{SubjectPrefix + ">"},
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		MaxConsumers:           -1, // as the server reports what is not limited
		MaxMsgs:                -1,
		MaxBytes:               -1,
		MaxMsgSize:             -1,
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

// wrongSettings describes each setting that is not as StreamConfig has it. An operator may
// choose the description, the replicas and their placement, the compression, and the window in
// which ids of messages are compared, since entries have none.
func wrongSettings(c jetstream.StreamConfig) (wrong []string) {
	want := StreamConfig(c.Replicas)
	want.Description, want.Placement, want.Compression, want.Duplicates = c.Description, c.Placement, c.Compression, c.Duplicates
	if c.FirstSeq < minFirst {
		wrong = append(wrong, fmt.Sprintf("first_seq is %d: revisions could go back when the bucket is made anew", c.FirstSeq))
	}
	if id := c.Metadata[IDKey]; !IsID(id) {
		wrong = append(wrong, fmt.Sprintf("metadata %s is %.30q, not 26 of A-Z and 2-7", IDKey, id))
	}
	if !isFeed(c.RePublish) {
		wrong = append(wrong, fmt.Sprintf("republish is not from %s> to %s<token>.> with bodies", SubjectPrefix, feedPrefix))
	}
	want.FirstSeq, want.Metadata, want.RePublish = c.FirstSeq, c.Metadata, c.RePublish
	has, needs := reflect.ValueOf(c), reflect.ValueOf(want)
	for i := range has.NumField() {
		if is, should := setting(has.Field(i)), setting(needs.Field(i)); is != should {
			name, _, _ := strings.Cut(has.Type().Field(i).Tag.Get("json"), ",")
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", name, is, should))
		}
	}
	return wrong
}

// setting returns a setting as JSON, but a duration as an operator enters it.
func setting(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // subjects contain >
	_ = to.Encode(v.Interface())
	return strings.TrimSpace(text.String())
}

// checkSettings returns the error of CheckSettings for the stream as it is now, or nil if its
// leader does not tell its settings within limit.
func (b *Bucket) checkSettings(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(b.open, limit)
	defer cancel()
	stream, err := b.js.Stream(ctx, StreamName)
	if err != nil {
		return nil
	}
	return CheckSettings(stream.CachedInfo().Config)
}
