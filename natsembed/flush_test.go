package natsembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// flushes records what was flushed.
type flushes struct {
	mu    sync.Mutex
	sizes map[string]int64 // by path; of directories too
	err   error            // of each further flush
}

func (f *flushes) sync(file *os.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := file.Stat()
	if err == nil {
		f.sizes[file.Name()] = info.Size()
	}
	return errors.Join(err, f.err)
}

func (f *flushes) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// missing returns what is in a directory, and was not flushed.
func (f *flushes) missing(t *testing.T, dir string) (missing []string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || !entry.IsDir() && !isBlock(name) && !strings.HasPrefix(name, "meta.") || name == "obs" {
			return err
		}
		info, err := entry.Info()
		if size, ok := f.sizes[path]; err == nil && (!ok || !entry.IsDir() && size != info.Size()) && filepath.Base(filepath.Dir(path)) != keepDir {
			missing = append(missing, path)
		}
		return err
	})
	kvslotstest.Must(t, err)
	return missing
}

// When Flush returns, everything that was acknowledged before, and the
// directories that contain it, is on the disk. An error of the disk is returned.
func TestFlush(t *testing.T) {
	for _, mode := range []Sync{SyncAlways, SyncGroup, SyncInterval} {
		t.Run(string(mode), func(t *testing.T) {
			f := &flushes{sizes: map[string]int64{}}
			dir := t.TempDir()
			srv, err := start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: mode}, f.sync)
			kvslotstest.Must(t, err)
			defer srv.Close()
			nc, err := srv.Connect()
			kvslotstest.Must(t, err)
			defer nc.Close()
			js, err := jetstream.New(nc)
			kvslotstest.Must(t, err)
			for i := range 3 {
				name := fmt.Sprint("S", i)
				kvslotstest.Must(t, kvslotstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}})))
				kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), name, []byte("text"))))
				kvslotstest.Must(t, srv.Flush())
				if missing := f.missing(t, streamsPath(srv)); len(missing) > 0 {
					t.Errorf("not flushed: %s", missing)
				}
			}
			f.fail(errors.New("the disk is broken"))
			kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), "S0", []byte("more"))))
			if err := srv.Flush(); err == nil || !strings.Contains(err.Error(), "the disk is broken") {
				t.Errorf("got %v", err)
			}
			<-srv.Failed()
		})
	}
}
