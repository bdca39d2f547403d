package natsembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	nc, err := s.connect(s.keys.probe, nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
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

// checkGroupable checks the file system, and the configuration of the existing streams.
func (s *Server) checkGroupable() error {
	if err := s.dir.checkLinks(); err != nil {
		return fmt.Errorf("%w: %w", errUngroupable, err)
	}
	return s.dir.eachStream(func(name string) error {
		err := checkMeta(filepath.Join(s.dir.streamsPath(), name, server.JetStreamMetaFile))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUngroupable, err)
	})
}

// checkLinks returns an error unless a file can have two names, and one inode number.
func (d *dataDir) checkLinks() error {
	file := filepath.Join(d.path, lockFile)
	second := file + ".link"
	if err := os.Remove(second); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an interrupted start
		return err
	}
	if err := os.Link(file, second); err != nil {
		return err
	}
	a, err := os.Lstat(file)
	b, err2 := os.Lstat(second)
	if err := errors.Join(err, err2, os.Remove(second)); err != nil {
		return err
	}
	if inode(a) == 0 || inode(a) != inode(b) {
		return errors.New("files have no inode numbers")
	}
	return nil
}

func (s *Server) publishProbes(ctx context.Context, js jetstream.JetStream) error {
	msgs := filepath.Join(s.dir.probePath(), streamsDir, probeStream, msgsDir)
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
	names, err := listNames(msgs)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if !isBlock(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(msgs, name))
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
