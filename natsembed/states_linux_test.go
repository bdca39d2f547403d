package natsembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// tasks are what a traced process does with a data directory, in which prepare has put a
// bucket, except for a first start.
var tasks = map[string]func(ctx context.Context, srv *Server) error{
	"first start": func(ctx context.Context, srv *Server) error {
		s, err := openSite(ctx, srv, onFlush)
		if err != nil {
			return err
		}
		defer s.close()
		return s.flushed()
	},
	"update": func(ctx context.Context, srv *Server) error {
		js, err := srv.jetStream()
		if err != nil {
			return err
		}
		defer js.Conn().Close()
		stream, err := js.Stream(ctx, bucketStream)
		if err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		config.Description += " (updated)"
		if _, err = js.UpdateStream(ctx, config); err != nil {
			return err
		}
		return srv.Flush()
	},
	"restore": restoreItself,
}

// restoreItself replaces the bucket by a backup of it.
func restoreItself(ctx context.Context, srv *Server) error {
	nc, err := srv.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	var file bytes.Buffer
	if err := natsstore.Backup(ctx, nc, &file); err != nil {
		return err
	}
	_, err = natsstore.Restore(ctx, nc, &file, natsstore.RestoreOptions{Replace: true, Unused: true, Flush: func(context.Context) error { return srv.Flush() }})
	return err
}

func init() { runTask = tracedTask }

func tracedTask(dir, task string) {
	srv, err := Start(context.Background(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	if err == nil {
		err = tasks[task](context.Background(), srv)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, task, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// leasedPool is the pool with two slots, of which one is lent, in the bucket of prepare.
var leasedPool = uuid.MustParse("11111111-2222-4333-8444-555555555555")

func prepare(t *testing.T, dir string) {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	kvslotstest.Must(t, err)
	s, err := openSite(t.Context(), srv, onFlush)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(s.store.Register(t.Context(), leasedPool, 2)))
	kvslotstest.Must(t, kvslotstest.Err(s.store.Borrow(t.Context(), leasedPool, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))))
	s.close()
	kvslotstest.Must(t, srv.Close())
}

// states collects copies of a data directory.
type states struct {
	t     *testing.T
	every bool // also those that differ only in the contents of other files than meta files
	from  string
	to    string
	last  string   // what the last one consisted of
	all   []string // directories
}

// add copies the directory, unless it is as it was at the last call.
func (s *states) add() {
	s.t.Helper()
	if print := s.print(); print != s.last {
		s.last = print
		to := filepath.Join(s.to, fmt.Sprint(len(s.all)))
		copyTree(s.t, s.from, to)
		s.all = append(s.all, to)
	}
}

// print describes the directory.
func (s *states) print() string {
	return describeTree(s.from, func(name string, size int64) bool {
		return s.every || strings.HasPrefix(name, "meta.") || isBlock(name) && size < 30
	})
}

// describeTree describes the files below a directory: which of them are one file with several
// names, and the contents of those for which reads returns true.
func describeTree(dir string, reads func(name string, size int64) bool) string {
	var print bytes.Buffer
	numbers := map[uint64]int{} // of inodes
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if _, known := numbers[inode(info)]; !known {
				numbers[inode(info)] = len(numbers)
			}
			fmt.Fprintln(&print, path[len(dir):], numbers[inode(info)])
			if info.Mode().IsRegular() && reads(entry.Name(), info.Size()) {
				content, _ := os.ReadFile(path)
				print.Write(content)
			}
		}
		return nil
	})
	return print.String()
}

// copyTree copies a directory, in which a file may have several names.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	copies := map[uint64]string{}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		copied := filepath.Join(to, path[len(from):])
		if entry.IsDir() {
			return os.MkdirAll(copied, 0o700)
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		if other, ok := copies[inode(info)]; ok {
			return os.Link(other, copied)
		}
		copies[inode(info)] = copied
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		return os.WriteFile(copied, content, 0o600)
	})
	kvslotstest.Must(t, err)
}

// torn returns copies of a state in which meta files that were not flushed yet are full of
// zeros, as a power cut may leave them. After a clean stop there are none.
func torn(t *testing.T, state string) (all []string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(state, cleanFile)); err == nil {
		return nil
	}
	streams := filepath.Join(server.JetStreamStoreDir, bucketAccount, streamsDir)
	names, err := flush.NewDir(state, bucketAccount, nil).Streams()
	kvslotstest.Must(t, err)
	for _, stream := range names {
		dir := filepath.Join(streams, stream)
		kept, err := os.Lstat(filepath.Join(state, dir, keepDir, server.JetStreamMetaFile))
		_, noKeep := os.Lstat(filepath.Join(state, dir, keepDir))
		for _, name := range []string{server.JetStreamMetaFileSum, server.JetStreamMetaFile} {
			info, missing := os.Lstat(filepath.Join(state, dir, name))
			if missing != nil || name == server.JetStreamMetaFile && noKeep == nil && (err != nil || os.SameFile(kept, info)) {
				continue
			}
			to := fmt.Sprintf("%s-%d", state, len(all))
			copyTree(t, state, to)
			zeros := filepath.Join(to, dir, name)
			kvslotstest.Must(t, errors.Join(os.Remove(zeros), os.WriteFile(zeros, make([]byte, info.Size()), 0o600)))
			all = append(all, to)
		}
	}
	return all
}

// A server starts from every state of the data directory between two system calls of a first
// start, of an update of the bucket's stream and of a restore. The bucket is then as it was,
// or the restore is repeated.
func TestEveryStateStarts(t *testing.T) {
	t.Parallel() // waits for the disk
	backup := preparedBackup(t)
	for task := range tasks {
		t.Run(task, func(t *testing.T) {
			s := &states{t: t, every: os.Getenv("KVSLOTS_SOAK") != "", from: t.TempDir(), to: t.TempDir()}
			if task != "first start" {
				prepare(t, s.from)
			}
			s.add()
			if !trace(t, []string{victimDir + "=" + s.from, victimTask + "=" + task}, s.add) {
				t.Fatal("the traced process failed")
			}
			t.Logf("%d states", len(s.all))
			checked, seen := 0, map[string]bool{}
			var starts sync.WaitGroup
			places := make(chan struct{}, 8) // a start waits for the disk most of the time
			for i, state := range s.all {
				for _, dir := range append(torn(t, state), state) {
					same := describeTree(dir, func(string, int64) bool { return true })
					if seen[same] {
						continue
					}
					seen[same] = true
					places <- struct{}{}
					checked++
					starts.Go(func() {
						defer func() { <-places }()
						if err := startFrom(t, dir, task != "first start", backup); err != nil {
							t.Errorf("state %d of %d, %s: %v", i, len(s.all), filepath.Base(dir), err)
						}
						if err := os.RemoveAll(dir); err != nil {
							t.Error(err)
						}
					})
				}
			}
			starts.Wait()
			t.Logf("%d starts", checked)
		})
	}
}

// startFrom starts a server from a state, and checks what it has.
func startFrom(t *testing.T, dir string, prepared bool, backup []byte) error {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	if err != nil {
		return err
	}
	defer srv.Close()
	s, err := openSite(t.Context(), srv, onFlush)
	if errors.Is(err, natsstore.ErrWrongBucket) && prepared {
		return repeatRestore(t, srv, backup)
	}
	if err != nil {
		return err
	}
	if !prepared {
		s.close()
		return nil
	}
	state, err := insist(s, func() (kvslots.State, error) { return s.store.Inspect(t.Context(), leasedPool) })
	s.close()
	if errors.Is(err, kvslots.ErrNoPool) { // the stream was deleted, and not created again
		return repeatRestore(t, srv, backup)
	}
	if err == nil && (state.Count != 2 || state.InUse != 1) {
		err = fmt.Errorf("the pool is %+v", state)
	}
	return err
}

// repeatRestore repeats the restore of the bucket.
func repeatRestore(t *testing.T, srv *Server, backup []byte) error {
	t.Helper()
	nc, err := srv.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = natsstore.Restore(t.Context(), nc, bytes.NewReader(backup), natsstore.RestoreOptions{Unused: true, Flush: func(context.Context) error { return srv.Flush() }})
	if err != nil {
		return fmt.Errorf("the restore cannot be repeated: %w", err)
	}
	s, err := openSite(t.Context(), srv, onFlush)
	if err == nil {
		s.close()
	}
	return err
}

// preparedBackup returns a backup of the bucket of prepare.
func preparedBackup(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	prepare(t, dir)
	srv := startServer(t, Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	nc, err := srv.Connect()
	kvslotstest.Must(t, err)
	defer nc.Close()
	var file bytes.Buffer
	kvslotstest.Must(t, natsstore.Backup(t.Context(), nc, &file))
	kvslotstest.Must(t, srv.Close())
	return file.Bytes()
}
