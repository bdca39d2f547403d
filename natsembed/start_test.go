package natsembed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// BenchmarkStart starts a server on 150,000 entries of the size of a lease: after a
// clean stop, and after an unclean stop, when nats-server's index is dropped and the
// server reads each block.
func BenchmarkStart(b *testing.B) {
	const records = 150_000
	dir := b.TempDir()
	fill(b, dir, records)
	for _, clean := range []bool{true, false} {
		b.Run(fmt.Sprintf("records=%d/clean=%v", records, clean), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				if !clean {
					kvslotstest.Must(b, os.Remove(filepath.Join(dir, cleanFile)))
				}
				b.StartTimer()
				srv, err := Start(b.Context(), Config{DataDir: dir, Sync: SyncGroup})
				kvslotstest.Must(b, err)
				b.StopTimer()
				kvslotstest.Must(b, srv.Close())
				b.StartTimer()
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/start")
		})
	}
}

// fill writes the entries, each with its own subject.
func fill(b *testing.B, dir string, records int) {
	b.Helper()
	const batch = 1000 // divides the number of records
	srv, err := Start(b.Context(), Config{DataDir: dir, Sync: SyncInterval})
	kvslotstest.Must(b, err)
	nc, err := srv.Connect()
	kvslotstest.Must(b, err)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(batch))
	kvslotstest.Must(b, err)
	_, err = js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, AllowMsgTTL: true,
	})
	kvslotstest.Must(b, err)
	for i := range records {
		m := nats.NewMsg(fmt.Sprintf("s.p.%032x.s.%d", i/10, i%10))
		m.Header.Set(jetstream.MsgTTLHeader, "24h")
		m.Data = make([]byte, 200)
		if _, err := js.PublishMsgAsync(m); err != nil {
			b.Fatal(err)
		}
		if (i+1)%batch == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	stream, err := js.Stream(b.Context(), "S")
	kvslotstest.Must(b, err)
	if n := stream.CachedInfo().State.Msgs; n != uint64(records) {
		b.Fatalf("%d records are there", n)
	}
	nc.Close()
	kvslotstest.Must(b, srv.Close())
}
