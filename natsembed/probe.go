package natsembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	probeStream  = "PROBE"
	probes       = 20
	probeTimeout = 10 * time.Second
)

// errUngroupable wraps the reason why writes cannot be flushed in groups. nats-server
// must then flush each write itself.
var errUngroupable = errors.New("writes cannot be flushed in groups")

// probe checks what the Flusher relies on: when nats-server acknowledges a write, a
// block file contains the written bytes.
func (s *Server) probe(ctx context.Context) error {
	if s.nats().JetStreamIsClustered() {
		return fmt.Errorf("%w: the server is clustered", errUngroupable)
	}
	js, err := s.jetStream(s.keys.probe)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: probeStream, Subjects: []string{probeStream}, Storage: jetstream.FileStorage, MaxMsgsPerSubject: 1,
	})
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	err = s.publishProbes(ctx, js)
	return errors.Join(err, js.DeleteStream(ctx, stream.CachedInfo().Config.Name))
}

func (s *Server) publishProbes(ctx context.Context, js jetstream.JetStream) error {
	msgs := filepath.Join(s.dir.probePath(), "streams", probeStream, "msgs")
	for range probes {
		text := []byte(uuid.NewString())
		if _, err := js.Publish(ctx, probeStream, text); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		found, err := inBlocks(msgs, text)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		if !found {
			return fmt.Errorf("%w: an acknowledged write is in no block file", errUngroupable)
		}
	}
	return nil
}

// inBlocks reports whether a block file in a directory contains text.
func inBlocks(msgs string, text []byte) (bool, error) {
	entries, err := os.ReadDir(msgs)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".blk" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(msgs, entry.Name()))
		if err != nil {
			return false, err
		}
		if bytes.Contains(data, text) {
			return true, nil
		}
	}
	return false, nil
}

// probePath returns the directory of probeAccount. An interrupted start may have left it.
func (d *dataDir) probePath() string {
	return filepath.Join(d.path, server.JetStreamStoreDir, probeAccount)
}
