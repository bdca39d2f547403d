package flush

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// maxListings bounds how often list repeats a listing because files changed.
const maxListings = 1000

// reportTime is how long a link is kept after the flush that made it superfluous. nats-server
// waits for its locks between a failed flush of its own and the report of the error.
const reportTime = time.Second

var errChanged = errors.New("the blocks changed during a listing")

// blocks are the block files of one stream, as they were last flushed.
type blocks struct {
	dir   string            // the stream's directory
	meta  stamp             // of the stream's meta file, as flushed
	open  map[uint64]*block // by inode
	order uint64            // of the next link

	linked bool // whether links were added to keep since it was last flushed

	sync Syncer
}

// block is one block file. Its descriptor stays open for as long as its link is
// kept: the kernel reuses the inode numbers of closed files, and reports a writeback
// error only to descriptors that were open when the error occurred.
type block struct {
	link    link
	file    *os.File
	flushed stamp
	listed  bool      // whether the latest listing found it in msgs
	gone    time.Time // the first call of drop that found it not listed, or zero
}

func newBlocks(dir string, sync Syncer) *blocks {
	return &blocks{dir: dir, sync: sync, open: map[uint64]*block{}}
}

func (s *blocks) path(of string) string { return filepath.Join(s.dir, of) }

// exists reports whether the stream has a meta file: it is created, and not deleted.
func (s *blocks) exists() (bool, error) {
	_, err := os.Lstat(s.path(server.JetStreamMetaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// flush makes durable everything that the server wrote before the call. It returns
// fs.ErrNotExist when the stream is gone.
func (s *blocks) flush() error {
	if err := s.flushMeta(); err != nil {
		return err
	}
	if err := s.list(); err != nil {
		return err
	}
	if err := s.flushOpen(); err != nil || !s.linked {
		return err
	}
	if err := s.sync.path(s.path(keepDir)); err != nil { // putBack does not need the names in msgs
		return err
	}
	s.linked = false
	return nil
}

func (s *blocks) flushOpen() error {
	for _, b := range s.open {
		if err := s.flushBlock(b); err != nil {
			return err
		}
	}
	return nil
}

// flushMeta flushes the whole stream and the directories above it if the stream was
// created or changed: nats-server does not recover a stream with an empty meta file.
func (s *blocks) flushMeta() error {
	info, err := os.Lstat(s.path(server.JetStreamMetaFile))
	if err != nil {
		return err
	}
	if s.meta == stampOf(info) {
		return nil
	}
	if err := checkMeta(s.path(server.JetStreamMetaFile)); err != nil {
		return err
	}
	if err := s.sync.tree(s.dir); err != nil {
		return err
	}
	if err := s.sync.up(filepath.Dir(s.dir)); err != nil {
		return err
	}
	if err := os.Mkdir(s.path(keepDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.keepMeta(info); err != nil {
		return err
	}
	if err := s.sync.path(s.dir); err != nil {
		return err
	}
	s.meta = stampOf(info)
	return nil
}

// keepMeta creates a link in keepDir to the meta file that was flushed, in place of an
// earlier one's: after an update, the new file's name may reach the disk before its content.
// If the server has replaced the file meanwhile, the next pass flushes and links the new one.
func (s *blocks) keepMeta(flushed fs.FileInfo) error {
	to := s.path(filepath.Join(keepDir, server.JetStreamMetaFile))
	temporary := to + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(s.path(server.JetStreamMetaFile), temporary); err != nil {
		return err
	}
	linked, err := os.Lstat(temporary)
	if err != nil || !os.SameFile(linked, flushed) {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, to); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(temporary), s.sync.path(s.path(keepDir))) // a rename between two names of a file does nothing
}

// list opens and links new blocks. When a block has vanished, list repeats the
// listing: the block that superseded the vanished one may have been created after
// the first listing read its place in the directory.
func (s *blocks) list() error {
	for range maxListings {
		vanished, err := s.listOnce()
		if err == nil && !vanished {
			return nil
		}
		if err != nil && !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("%s: %w, %d times in a row", s.dir, errChanged, maxListings)
}

// listOnce returns errChanged when the server removed or replaced a file meanwhile.
func (s *blocks) listOnce() (vanished bool, err error) {
	names, err := listNames(s.path(msgsDir))
	if err != nil {
		return false, err
	}
	listed := make(map[uint64]bool, len(names))
	for _, name := range names {
		if !isBlock(name) {
			continue
		}
		b, err := s.find(name)
		if err != nil {
			return false, err
		}
		listed[b.flushed.inode] = true
	}
	for number, b := range s.open {
		if b.listed && !listed[number] {
			vanished = true
		}
		b.listed = listed[number]
	}
	return vanished, nil
}

// find returns the block with the given name. It opens and links a new one.
func (s *blocks) find(name string) (*block, error) {
	info, err := os.Lstat(s.path(filepath.Join(msgsDir, name)))
	if err != nil {
		return nil, changed(err)
	}
	if b := s.open[inode(info)]; b != nil {
		return b, nil
	}
	file, err := os.Open(s.path(filepath.Join(msgsDir, name)))
	if err != nil {
		return nil, changed(err)
	}
	b, err := s.link(name, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.open[b.flushed.inode] = b
	s.linked = true
	return b, nil
}

// link creates a link in keepDir to an open block.
func (s *blocks) link(name string, file *os.File) (*block, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	b := &block{file: file, flushed: stamp{inode: inode(info), size: -1}, listed: true}
	b.link = link{block: name, order: s.order, inode: b.flushed.inode}
	s.order++
	to := s.path(filepath.Join(keepDir, b.link.String()))
	if err := os.Link(s.path(filepath.Join(msgsDir, name)), to); err != nil {
		return nil, changed(err)
	}
	linked, err := os.Lstat(to)
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, linked) { // the server has replaced the block
		return nil, errors.Join(errChanged, os.Remove(to))
	}
	return b, nil
}

// changed returns errChanged if err says that a file is gone, and else err.
func changed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	return err
}

// flushBlock flushes a block that was written to. A block that is gone from msgs is
// flushed, too: putBack may restore it from its link.
func (s *blocks) flushBlock(b *block) error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	if b.flushed == stampOf(info) {
		return nil
	}
	if err := s.sync.file(b.file); err != nil {
		return err
	}
	b.flushed = stampOf(info) // taken before the flush: later writes are for the next one
	return nil
}

// drop removes the links of blocks that the server has removed, if an earlier call, or this
// one, found them superfluous the given time ago. It must be called after a flush, which made
// durable the records that supersede those of the blocks.
func (s *blocks) drop(after time.Duration) error {
	now := time.Now()
	var gone []link
	for _, b := range s.open {
		if b.listed {
			continue
		}
		if b.gone.IsZero() {
			b.gone = now
		}
		if now.Sub(b.gone) >= after {
			gone = append(gone, b.link)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.SortFunc(gone, link.compare)
	// The removals of blocks reach the disk before those of links: nats-server would recover a
	// block whose records are superseded, without those that superseded them.
	for _, dir := range []string{msgsDir, "."} { // a purge replaces msgs
		if err := s.sync.path(s.path(dir)); err != nil {
			return err
		}
	}
	for _, l := range gone {
		err := os.Remove(s.path(filepath.Join(keepDir, l.String())))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = s.open[l.inode].file.Close()
		delete(s.open, l.inode)
		if err != nil {
			return err
		}
	}
	return s.sync.path(s.path(keepDir))
}

func (s *blocks) close() (err error) {
	for _, b := range s.open {
		err = errors.Join(err, b.file.Close())
	}
	clear(s.open)
	return err
}
