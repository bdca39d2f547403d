package natsembed

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
)

// keepDir stands beside a stream's msgs directory. It holds hard links to the
// stream's blocks.
//
// nats-server removes or rewrites a block as soon as the records that supersede
// its own are written, not when they are on disk, and the removal may reach the
// disk first. A link keeps the old block until what supersedes it was flushed.
const keepDir = "keep"

const blockSuffix = ".blk"

// link is the name of a block in keepDir: "<block>.<order>.<inode>". Of two links
// of one block, the one with the lower order was made earlier.
type link struct {
	block string // its name in msgs, "7.blk"
	order uint64
	inode uint64
}

func (l link) String() string {
	return fmt.Sprintf("%s.%d.%d", l.block, l.order, l.inode)
}

// parseLink reads the name of a link; ok is false if it is none.
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

// listLinks returns the links of a stream, the earlier ones of each block first.
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
	slices.SortFunc(links, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.order, b.order))
	})
	return links, nil
}

// putBack gives each block of a stream the content that it had when it was last
// flushed as a whole. It is called after an unclean stop, while no server runs, and
// may be interrupted and called again.
//
// Of the links of a block, the earliest holds everything that was told: a link is
// removed only when all that supersedes its block was flushed.
func putBack(dir string) error {
	links, err := listLinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keep, msgs := filepath.Join(dir, keepDir), filepath.Join(dir, msgsDir)
	var earliest []link
	for i, l := range links {
		if i == 0 || links[i-1].block != l.block {
			earliest = append(earliest, l)
		} else if err := os.Remove(filepath.Join(keep, l.String())); err != nil {
			return err
		}
	}
	// Else a later link could outlast the renaming, and be put back by the next call.
	if err := syncPath(keep); err != nil {
		return err
	}
	for _, l := range earliest {
		if err := putBackOne(filepath.Join(keep, l.String()), filepath.Join(msgs, l.block)); err != nil {
			return err
		}
	}
	return errors.Join(syncPath(msgs), syncPath(keep))
}

func putBackOne(kept, block string) error {
	from, err := os.Lstat(kept)
	if err != nil {
		return err
	}
	to, err := os.Lstat(block)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case os.SameFile(from, to):
		return os.Remove(kept) // to rename one name of a file over another does nothing
	}
	return os.Rename(kept, block)
}

// dropLinks removes all links of a stream whose blocks were flushed.
func dropLinks(dir string) error {
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
	return syncPath(keep)
}

// listNames returns what a directory holds, in any order.
func listNames(dir string) (names []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Readdirnames(-1)
}

// syncPath flushes a file, or the names in a directory.
func syncPath(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return flushFile(f)
}
