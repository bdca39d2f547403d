//go:build unix

package natsembed

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// disk is a model of what a power cut leaves of a stream: everything that was flushed,
// and any part of the rest. It is between the Flusher and the real files.
type disk struct {
	shadow string // keeps a name of every file that may be left

	mu    sync.Mutex
	names map[string]map[string]uint64 // by directory: the names that are on the disk, and their inodes
	sizes map[uint64]int64             // of what was flushed of a file

	// If a cut is wanted, the next flush that finds files of msgsDir or of keepDir gone or
	// replaced waits for it. Of msgsDir, the records that superseded those of the blocks are
	// not flushed yet. Of keepDir, the Flusher is dropping links.
	stream string
	wanted string // the directory, or ""
	moment chan struct{}
	resume chan struct{}

	begins  func() // called when a flush begins; may be nil
	forgets bool   // flushes have no effect

	spoils func()          // called when the next rewritten block is spoilt; nil if none is to be
	spoilt map[uint64]bool // files whose flushes succeed without effect
}

func newDisk(t *testing.T) *disk {
	return &disk{
		shadow: t.TempDir(), names: map[string]map[string]uint64{}, sizes: map[uint64]int64{}, spoilt: map[uint64]bool{},
		moment: make(chan struct{}), resume: make(chan struct{}),
	}
}

// want makes the next flush wait for a cut that finds files of a directory gone.
func (d *disk) want(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = dir
}

// awaitCut waits for a cut if one is wanted now.
func (d *disk) awaitCut() {
	d.mu.Lock()
	vanished := false
	for name, number := range d.names[d.wanted] {
		_, linked := parseLink(name)
		info, err := os.Lstat(filepath.Join(d.stream, d.wanted, name))
		vanished = vanished || (linked || isBlock(name)) && (err != nil || inode(info) != number)
	}
	if vanished {
		d.wanted = ""
	}
	d.mu.Unlock()
	if vanished {
		d.moment <- struct{}{}
		<-d.resume
	}
}

// sync is called by the server. It records what is flushed.
func (d *disk) sync(f *os.File) error {
	d.awaitCut()
	if d.begins != nil {
		d.begins()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := f.Stat()
	if err != nil || d.forgets || d.isSpoilt(filepath.Base(f.Name()), inode(info)) {
		return err
	}
	if info.IsDir() {
		dir := filepath.Base(f.Name())
		if dir != msgsDir && dir != keepDir {
			return nil
		}
		if d.names[dir], err = d.list(f.Name()); err != nil {
			return err
		}
		return d.forget()
	}
	d.sizes[inode(info)] = info.Size()
	return d.writeBack()
}

// writeBack writes some names without a flush, as the kernel does at any time.
func (d *disk) writeBack() error {
	if d.stream == "" || rand.IntN(4) > 0 {
		return nil
	}
	for _, dir := range []string{msgsDir, keepDir} {
		present, err := d.list(filepath.Join(d.stream, dir))
		if err != nil {
			return err
		}
		d.names[dir] = left(d.names[dir], present, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	}
	return nil
}

// isSpoilt reports whether nats-server has flushed a block before the Flusher opened it, and
// got the error of a failed write: the kernel has dropped what was written, and lets later
// flushes succeed.
func (d *disk) isSpoilt(name string, number uint64) bool {
	for kept := range d.names[keepDir] {
		l, _ := parseLink(kept)
		if d.spoils != nil && l.block() == name && l.inode != number && d.sizes[number] == 0 {
			d.spoilt[number] = true
			go d.spoils()
			d.spoils = nil
		}
	}
	return d.spoilt[number]
}

// list returns the names in a directory, and links the files so that they stay.
func (d *disk) list(dir string) (map[string]uint64, error) {
	names, err := listNames(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		kept := d.shadowOf(inode(info))
		err = os.Link(filepath.Join(dir, name), kept)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if there, err := os.Lstat(kept); err != nil || inode(there) != inode(info) {
			continue
		}
		found[name] = inode(info)
	}
	return found, nil
}

// forget removes the files that no cut can leave: they have no name, and had none when the
// names were flushed.
func (d *disk) forget() error {
	flushed := map[uint64]bool{}
	for _, names := range d.names {
		for _, number := range names {
			flushed[number] = true
		}
	}
	all, err := os.ReadDir(d.shadow)
	if err != nil {
		return err
	}
	for _, entry := range all {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if number := inode(info); !flushed[number] && lonely(info) {
			delete(d.sizes, number) // another file may get its number
			if err := os.Remove(filepath.Join(d.shadow, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// inode returns the inode number of a file.
func inode(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Ino) }

// lonely reports whether a file has only one name.
func lonely(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 1
}

// cut writes what a power cut could leave into another data directory. The caller holds
// the lock, so that nothing is flushed meanwhile.
func (d *disk) cut(t *testing.T, random *rand.Rand) (dir string) {
	t.Helper()
	dir = t.TempDir()
	to := d.copyMeta(t, dir)
	files := map[uint64]string{} // those that were written already
	for _, part := range []string{msgsDir, keepDir} {
		for name, number := range left(d.names[part], d.present(t, part), random) {
			d.leave(t, number, filepath.Join(to, part, name), files, random)
		}
	}
	return dir
}

// present returns the files in a part of the stream.
func (d *disk) present(t *testing.T, part string) map[string]uint64 {
	t.Helper()
	names, err := d.list(filepath.Join(d.stream, part))
	kvslotstest.Must(t, err)
	return names
}

// copyMeta creates the stream without blocks in another data directory.
func (d *disk) copyMeta(t *testing.T, dir string) (stream string) {
	t.Helper()
	stream = filepath.Join(dir, server.JetStreamStoreDir, bucketAccount, streamsDir, filepath.Base(d.stream))
	for _, part := range []string{msgsDir, keepDir} {
		kvslotstest.Must(t, os.MkdirAll(filepath.Join(stream, part), 0o700))
	}
	for _, name := range []string{server.JetStreamMetaFile, server.JetStreamMetaFileSum} {
		data, err := os.ReadFile(filepath.Join(d.stream, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(stream, name), data, 0o600)
		}
		kvslotstest.Must(t, err)
	}
	return stream
}

// left chooses at random which changes of names have reached the disk.
func left(flushed, present map[string]uint64, random *rand.Rand) map[string]uint64 {
	names := map[string]uint64{}
	for _, from := range []map[string]uint64{flushed, present} {
		for name := range from {
			of := flushed
			if random.IntN(2) == 0 {
				of = present
			}
			delete(names, name)
			if number, ok := of[name]; ok {
				names[name] = number
			}
		}
	}
	return names
}

// leave writes one file: its flushed part, and some of the rest.
func (d *disk) leave(t *testing.T, number uint64, to string, files map[uint64]string, random *rand.Rand) {
	t.Helper()
	if other, ok := files[number]; ok {
		kvslotstest.Must(t, os.Link(other, to))
		return
	}
	data, err := os.ReadFile(d.shadowOf(number))
	kvslotstest.Must(t, err)
	if isBlock(filepath.Base(to)) || filepath.Base(filepath.Dir(to)) == keepDir {
		flushed := min(d.sizes[number], int64(len(data)))
		data = data[:flushed+random.Int64N(int64(len(data))-flushed+1)]
		if d.spoilt[number] {
			clear(data)
		}
		if random.IntN(3) == 0 { // the size reached the disk, the end of the data did not
			from := flushed + random.Int64N(int64(len(data))-flushed+1)
			clear(data[from:])
		}
	}
	kvslotstest.Must(t, os.WriteFile(to, data, 0o600))
	files[number] = to
}

// outage takes from a disk what one leaves, and returns a function that returns it as a
// data directory. While the outage runs, nothing is flushed.
type outage func(t *testing.T, d *disk, random *rand.Rand) func() (dir string)

func powerCut(t *testing.T, d *disk, random *rand.Rand) func() string {
	dir := d.cut(t, random)
	return func() string { return dir }
}

// startOnModel starts a server whose disk is a model, and opens a site there, which its caller closes.
func startOnModel(t *testing.T, through durability) (random *rand.Rand, d *disk, srv *Server, s *site) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d = newDisk(t)
	dir := t.TempDir()
	t.Cleanup(func() { logtest.SearchDir(dir) })
	srv, err := start(t.Context(), Config{DataDir: dir, Sync: SyncGroup}, d.sync)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	s, err = openSite(t.Context(), srv, through)
	kvslotstest.Must(t, err)
	flushed(t, srv) // includes the meta file of the stream
	return rand.New(rand.NewPCG(seed, 0)), d, srv, s
}

// modelCuts runs writers, and calls then with each of n directories that an
// outage could have left, until then returns false.
func modelCuts(t *testing.T, through durability, n int, end outage, then func(t *testing.T, dir string, f *facts) bool) {
	t.Helper()
	random, d, srv, s := startOnModel(t, through)
	c := newCrowd()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx, s) })
	defer running.Wait()
	defer s.close()
	defer stop()
	defer close(d.resume)
	d.mu.Lock()
	d.stream = bucketPath(srv)
	d.mu.Unlock()
	for i, more := 0, true; more && i < n; i++ {
		// Each cut is a test of its own, which removes what it has written.
		more = t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			in := []string{"", msgsDir, keepDir, msgsDir}[i%4]
			if in != "" {
				d.want(in)
				<-d.moment
			} else {
				c.await(100 + random.IntN(1000)) // at a random moment
			}
			f := c.known()
			var left func() string
			d.atCut(func() { left = end(t, d, random) })
			f.sent = c.known().sent // the server wrote while its files were read
			if in != "" {
				d.resume <- struct{}{}
			}
			c.pause.Lock() // a start needs the processor
			defer c.pause.Unlock()
			more = then(t, left(), &f)
		}) && more
	}
	t.Logf("%d durable writes", c.reported())
}

// atCut calls do while no flush is running.
func (d *disk) atCut(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// recovered starts a site on what a power cut left, and returns what it lost.
func recovered(t *testing.T, dir string, f *facts) error {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	if err != nil {
		return err
	}
	defer srv.Close()
	s, err := openSite(t.Context(), srv, onFlush)
	if err != nil {
		return err
	}
	defer s.close()
	return f.check(t.Context(), s)
}

// The power is cut in a model of the disk under writers of the bucket. Everything that was
// reported to them as durable survives.
func TestModelledPowerCuts(t *testing.T) {
	t.Parallel()
	cuts := 10
	if os.Getenv("KVSLOTS_SOAK") != "" {
		cuts = 330
	}
	modelCuts(t, onFlush, cuts, powerCut, func(t *testing.T, dir string, f *facts) bool {
		if err := recovered(t, dir, f); err != nil {
			t.Errorf("%v", err)
		}
		return !t.Failed()
	})
}

// The test above can fail: without the links, or without waiting for the flush, it
// finds losses.
func TestModelledPowerCutsFindLosses(t *testing.T) {
	t.Parallel()
	const cuts = 200 // far more than a loss needs
	for _, w := range weaknesses {
		t.Run(w.name, func(t *testing.T) {
			var loss error
			taken := 0
			modelCuts(t, w.through, cuts, powerCut, func(t *testing.T, dir string, f *facts) bool {
				taken++
				kvslotstest.Must(t, w.before(dir))
				loss = recovered(t, dir, f)
				return loss == nil
			})
			if loss == nil {
				t.Errorf("no loss in %d cuts", cuts)
			}
			t.Logf("after %d cuts: %v", taken, loss)
		})
	}
}

// weaknesses are defects that the power cut tests must find.
var weaknesses = []struct {
	name    string
	must    bool // also a few cuts of a real disk find it
	through durability
	before  func(dir string) error // called before the start
}{
	{"without links", false, onFlush, func(dir string) error {
		return os.RemoveAll(filepath.Join(dir, server.JetStreamStoreDir, bucketAccount, streamsDir, bucketStream, keepDir))
	}},
	{"without waiting for the flush", true, onAcknowledge, func(string) error { return nil }},
}
