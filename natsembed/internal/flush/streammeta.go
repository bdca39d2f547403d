package flush

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// streamMeta is what nats-server needs of a stream's directory to recover the stream: its
// configuration in meta.inf, and the checksum of that in meta.sum. nats-server replaces one
// after the other, when it creates or updates a stream, and does not flush them unless it
// flushes each write. It deletes a stream by removing meta.inf, renaming the directory to a
// name with a dot, and removing that. If it ends in between, it does not recover the stream
// any more.
type streamMeta struct {
	dir       string
	info, sum []byte // nil if there is no such file
}

func readStreamMeta(dir string) (m streamMeta, err error) {
	m.dir = dir
	if m.info, err = readIfThere(filepath.Join(dir, server.JetStreamMetaFile)); err == nil {
		m.sum, err = readIfThere(filepath.Join(dir, server.JetStreamMetaFileSum))
	}
	return m, err
}

// isValid reports whether info is the configuration of the stream of this directory.
func (m *streamMeta) isValid(info []byte) bool {
	var config server.FileStreamInfo
	return json.Unmarshal(info, &config) == nil && config.Name == filepath.Base(m.dir)
}

func (m *streamMeta) sumOf(info []byte) (string, error) {
	key := sha256.Sum256([]byte(filepath.Base(m.dir)))
	hash, err := highwayhash.New64(key[:])
	if err != nil {
		return "", err
	}
	_, _ = hash.Write(info) // never fails
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// mendMeta repairs a stream that nats-server was creating or updating when it ended, or
// removes one that it was creating or deleting. It reports whether the stream is still there.
// No server may be running.
//
// No answer relies on a stream whose creation was not flushed, nor on one whose deletion has
// begun: a restore flushes its mark first, which keeps stores from creating an empty bucket.
func (d *Dir) mendMeta(dir string) (there bool, err error) {
	m, err := readStreamMeta(dir)
	if err != nil {
		return false, err
	}
	if m.isValid(m.info) { // created or updated
		return true, d.writeSum(&m, m.info)
	}
	kept, err := readIfThere(filepath.Join(dir, keepDir, server.JetStreamMetaFile))
	if err != nil {
		return false, err
	}
	if m.info != nil && m.isValid(kept) { // updated, and what was written is lost
		if err := d.sync.write(filepath.Join(dir, server.JetStreamMetaFile), kept); err != nil {
			return false, err
		}
		return true, d.writeSum(&m, kept)
	}
	gone, err := m.isGone()
	if gone && err == nil {
		return false, d.remove(dir)
	}
	if err != nil {
		return false, err
	}
	never, err := d.neverFlushed(dir)
	if never && err == nil {
		return false, d.setAside(dir)
	}
	return true, err // nats-server reports what is wrong with it
}

// writeSum writes the checksum of info, unless it is there.
func (d *Dir) writeSum(m *streamMeta, info []byte) error {
	sum, err := m.sumOf(info)
	if err != nil || sum == string(m.sum) {
		return err
	}
	return d.sync.write(filepath.Join(m.dir, server.JetStreamMetaFileSum), []byte(sum))
}

// isGone reports whether nats-server was deleting the stream, or creating it and had not yet
// written a message.
func (m *streamMeta) isGone() (bool, error) {
	if m.info != nil {
		return false, nil
	}
	if m.sum != nil { // written after meta.inf, which only a deletion removes
		return true, nil
	}
	names, err := listNames(filepath.Join(m.dir, msgsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(m.dir, msgsDir, name))
		if err != nil {
			return false, err
		}
		if isBlock(name) && info.Size() > maxTombstone {
			return false, nil
		}
	}
	return true, nil
}

// maxTombstone is the size in bytes of a record without a subject and a message. nats-server
// writes one to a new stream whose first sequence is not 1.
const maxTombstone = 30

// remove removes a stream's directory as nats-server does.
func (d *Dir) remove(dir string) error {
	above, name := filepath.Split(dir)
	hidden := filepath.Join(above, "."+name)
	if err := os.RemoveAll(hidden); err != nil {
		return err
	}
	if err := os.Rename(dir, hidden); err != nil {
		return err
	}
	if err := d.sync.path(filepath.Dir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(hidden)
}

// finishDeletions removes the streams that nats-server was deleting. It would remove them
// while it runs, and could not delete a stream of the same name meanwhile.
func (d *Dir) finishDeletions() error {
	names, err := listNames(d.streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if name[0] != '.' {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.streams, name)); err != nil {
			return err
		}
	}
	return nil
}
