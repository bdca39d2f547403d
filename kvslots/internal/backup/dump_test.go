package backup_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// A backup during which the bucket is replaced fails: it would have entries of two buckets,
// or a part of one that is being restored.
func TestBackupDuringARestore(t *testing.T) {
	for i, step := range backup.Steps {
		t.Run("until "+step, func(t *testing.T) {
			t.Parallel() // a backup takes some seconds to see that it gets no entries
			srv := natstest.Start(t, "")
			natstest.Must(t, open(t, srv).Close(t.Context()))
			b, err := backup.Dump(t.Context(), srv.Connect())
			natstest.Must(t, err)
			err = backup.DumpAcross(t.Context(), srv.Connect(), 0, func() {
				killed := errors.New("killed")
				if err := backup.Begun(t.Context(), srv.Connect(), b, i+1, func() error { return killed }); err != nil && !errors.Is(err, killed) {
					t.Error(err)
				}
			})
			if unchanged := step == "check"; (err == nil) != unchanged {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A backup of a bucket with fields of a later release can be restored.
func TestBackupOfUnknownFields(t *testing.T) {
	srv := natstest.Start(t, "")
	open(t, srv)
	nc := srv.Connect()
	js := natstest.JetStream(t, nc)
	key := entry.Key{Kind: entry.Config, Pool: entry.HashOf(entry.OfPool, "x")}
	natstest.Must(t, natstest.Err(js.Publish(t.Context(), bucket.SubjectPrefix+key.String(), []byte(`{"more":1,"count":2,"gen":7}`))))
	b, err := backup.Dump(t.Context(), nc)
	natstest.Must(t, err)
	var file bytes.Buffer
	natstest.Must(t, backup.Write(&file, b))
	read, err := backup.Read(&file)
	if err != nil || len(read.Entries) != 1 || string(read.Entries[0].Value) != `{"count":2,"gen":7}` {
		t.Errorf("read %+v, %v", read, err)
	}
}

// A backup ends when the bucket is deleted while it reads.
func TestBackupOfADeletedBucket(t *testing.T) {
	srv := natstest.Start(t, "")
	nc := srv.Connect()
	js := natstest.JetStream(t, nc)
	stream, err := js.CreateStream(t.Context(), bucket.StreamConfig(1))
	natstest.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- backup.DumpAcross(t.Context(), srv.Connect(), 1, func() {}) }()
	natstest.Eventually(t, "the backup reads", func() bool {
		names := stream.ConsumerNames(t.Context())
		_, reading := <-names.Name()
		return reading
	})
	natstest.Must(t, js.DeleteStream(t.Context(), bucket.StreamName))
	if err := <-ended; err == nil {
		t.Error("a backup was made")
	}
}
