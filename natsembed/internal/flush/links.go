package flush

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// keepDir is a directory beside a stream's msgs directory. It contains hard links to
// the stream's blocks.
//
// nats-server removes or rewrites a block as soon as it has written the records that
// supersede those in the block. The removal may reach the disk before these records do. A
// link keeps the old block until the superseding records are flushed.
const keepDir = "keep"

const blockSuffix = ".blk"

// link is the name of a block in keepDir: "<block>.<order>.<inode>". Of two links of
// one block, the one with the lower order is the earlier one.
type link struct {
	block string // its name in msgs, "7.blk"
	order uint64
	inode uint64
}

func (l link) String() string {
	return fmt.Sprintf("%s.%d.%d", l.block, l.order, l.inode)
}

// compare orders links by the numbers of their blocks, and the links of one block by age.
//
// Links are removed in this order. What supersedes or deletes a record is in the same block
// or in a later one. After a power cut between two removals, the later links are left: the
// records that putBack restores come back together with what superseded or deleted them.
func (l link) compare(m link) int {
	return cmp.Or(cmp.Compare(len(l.block), len(m.block)), cmp.Compare(l.block, m.block), cmp.Compare(l.order, m.order))
}

func parseLink(name string) (l link, ok bool) {
	number, rest, ok := strings.Cut(name, blockSuffix+".")
	if !ok || !isNumber(number) {
		return link{}, false
	}
	order, node, ok := strings.Cut(rest, ".")
	if !ok {
		return link{}, false
	}
	l.block = number + blockSuffix
	var err, err2 error
	l.order, err = strconv.ParseUint(order, 10, 64)
	l.inode, err2 = strconv.ParseUint(node, 10, 64)
	return l, err == nil && err2 == nil
}

// isBlock reports whether a name in msgs is a block's, "7.blk".
func isBlock(name string) bool {
	number, ok := strings.CutSuffix(name, blockSuffix)
	return ok && isNumber(number)
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// listLinks returns the links of a stream in the order of compare.
// It returns fs.ErrNotExist when the stream has no keepDir.
func listLinks(dir string) ([]link, error) {
	names, err := listNames(filepath.Join(dir, keepDir))
	if err != nil {
		return nil, err
	}
	var links []link
	for _, name := range names {
		if l, ok := parseLink(name); ok {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, link.compare)
	return links, nil
}

// putBack restores each block of a stream from its earliest link, and removes the
// links. It is called after an unclean stop, while no server runs, and may be interrupted
// and called again.
//
// The earliest link of a block contains every record that was reported as durable: a
// link is removed only after everything that supersedes its block was flushed. But a link
// to an empty file does not count: a nats-server that finds a last block without records
// removes it, and later creates another one with the same name.
func putBack(dir string, sync Syncer) error {
	links, err := listLinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keep, msgs := filepath.Join(dir, keepDir), filepath.Join(dir, msgsDir)
	restored := "" // the latest block
	for _, l := range links {
		kept := filepath.Join(keep, l.String())
		info, err := os.Lstat(kept)
		if err != nil {
			return err
		}
		if l.block == restored || info.Size() == 0 {
			err = os.Remove(kept)
		} else {
			restored = l.block
			err = putBackOne(info, kept, filepath.Join(msgs, l.block))
		}
		if err != nil {
			return err
		}
	}
	// After a power cut, an earliest link could otherwise be gone before its block is back,
	// or before a later link, from which the next call would restore.
	if err := errors.Join(sync.path(msgs), sync.path(keep)); err != nil {
		return err
	}
	return dropLinks(dir, sync)
}

func putBackOne(from fs.FileInfo, kept, block string) error {
	to, err := os.Lstat(block)
	if err == nil && os.SameFile(from, to) {
		return nil // renaming a file onto another name of the same file does nothing
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temporary := filepath.Join(filepath.Dir(kept), "back")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(kept, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, block)
}

// dropLinks removes all links of a stream. Its blocks must have been flushed.
func dropLinks(dir string, sync Syncer) error {
	links, err := listLinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keep := filepath.Join(dir, keepDir)
	for _, l := range links {
		if err := os.Remove(filepath.Join(keep, l.String())); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(keep, server.JetStreamMetaFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return sync.path(keep)
}

// listNames returns the names in a directory, in any order.
func listNames(dir string) (names []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Readdirnames(-1)
}
