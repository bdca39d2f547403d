package natsembed

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// smallDisk mounts a file system of 16 MiB. It skips the test where none can be mounted.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	return mount
}

// inflate creates a file that fills the disk.
func inflate(t *testing.T, mount string) (balloon string) {
	t.Helper()
	balloon = filepath.Join(mount, "balloon")
	if err := os.WriteFile(balloon, bytes.Repeat([]byte("x"), 32<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return balloon
}

// publishUntil publishes messages until noticed returns true for the error of the last one. It
// returns how many were acknowledged. A server that cannot write a message does not answer, but
// no answer within a second may only be a late one.
func publishUntil(t *testing.T, js jetstream.JetStream, noticed func(error) bool) (acknowledged uint64) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := js.Publish(ctx, "s", make([]byte, 10_000), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			acknowledged++
		}
		if noticed(err) {
			return acknowledged
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not notice that it cannot write")
		}
	}
}

// publishUntilNoRoom is publishUntil the server's Room returns an error that contains a text.
func publishUntilNoRoom(t *testing.T, srv *Server, js jetstream.JetStream, text string) (acknowledged uint64) {
	t.Helper()
	return publishUntil(t, js, func(error) bool {
		err := srv.Room()
		return err != nil && strings.Contains(err.Error(), text)
	})
}

// wantRecovered waits until the server takes writes again, and checks that no
// acknowledged message was lost.
func wantRecovered(t *testing.T, srv *Server, js jetstream.JetStream, acknowledged uint64) {
	t.Helper()
	wantRoom(t, srv, "")
	kvslotstest.Eventually(t, "a write is taken", func() bool {
		_, err := js.Publish(t.Context(), "s", []byte("again"))
		return err == nil
	})
	if srv.Flusher() != nil {
		flushed(t, srv)
	}
	if got := messages(t, srv); got < acknowledged+1 {
		t.Errorf("%d messages are there, %d were acknowledged", got, acknowledged+1)
	}
}

// A server whose disk was full restarts once there is space, with all acknowledged
// writes.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, sync := range []Sync{SyncGroup, SyncAlways, SyncInterval} {
		t.Run(string(sync), func(t *testing.T) {
			mount := smallDisk(t)
			srv := startServer(t, Config{DataDir: filepath.Join(mount, "data"), Sync: sync})
			put(t, srv, "one")
			js := connect(t, srv)
			balloon := inflate(t, mount)
			wantRoom(t, srv, "nearly full")
			acknowledged := publishUntilNoRoom(t, srv, js, "no space left on device")
			kvslotstest.Must(t, os.Remove(balloon))
			wantRecovered(t, srv, js, acknowledged+1)
		})
	}
}

// A start on a full disk fails before it changes anything, and says why.
func TestStartOnFullDisk(t *testing.T) {
	for _, sync := range []Sync{SyncGroup, SyncAlways} {
		t.Run(string(sync), func(t *testing.T) {
			mount := smallDisk(t)
			cfg := Config{Logger: logtest.Logger(), DataDir: filepath.Join(mount, "data"), Sync: sync}
			srv := startServer(t, cfg)
			put(t, srv, "one")
			kvslotstest.Must(t, srv.Close())
			balloon := inflate(t, mount)
			if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "data directory "+cfg.DataDir) || !errors.Is(err, unix.ENOSPC) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(cfg.DataDir, cleanFile)); err != nil {
				t.Error(err)
			}
			kvslotstest.Must(t, os.Remove(balloon))
			if got := messages(t, startServer(t, cfg)); got != 1 {
				t.Errorf("%d messages are there, 1 was acknowledged", got)
			}
		})
	}
}

// A server that fills most of its disk itself still takes writes, and starts again.
// (nats-server's own limit, three quarters of the disk, would refuse all writes.)
func TestMostOfTheDisk(t *testing.T) {
	t.Parallel()
	const size, count = 10_000, 1350 // of 16 MiB
	cfg := Config{DataDir: filepath.Join(smallDisk(t), "data"), Sync: SyncGroup}
	srv := startServer(t, cfg)
	put(t, srv, "one")
	js := connect(t, srv)
	for range count {
		kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), "s", make([]byte, size))))
	}
	kvslotstest.Must(t, srv.Close())
	again := startServer(t, cfg)
	if _, err := connect(t, again).Publish(t.Context(), "s", []byte("a return")); err != nil {
		t.Error(err)
	}
	if got := messages(t, again); got != count+2 {
		t.Errorf("%d messages are there, %d were acknowledged", got, count+2)
	}
}

// A server that cannot open files restarts once it can.
func TestNoDescriptors(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
	put(t, srv, "one")
	js := connect(t, srv)
	release := limitResource(t, syscall.RLIMIT_NOFILE, 0)
	acknowledged := publishUntil(t, js, func(err error) bool { return err != nil }) // Room cannot look
	release()
	wantRecovered(t, srv, js, acknowledged+1)
}

// limitResource limits a resource of the process until release is called.
func limitResource(t *testing.T, resource int, to uint64) (release func()) {
	t.Helper()
	var limit syscall.Rlimit
	kvslotstest.Must(t, syscall.Getrlimit(resource, &limit))
	kvslotstest.Must(t, syscall.Setrlimit(resource, &syscall.Rlimit{Cur: to, Max: limit.Max}))
	release = func() {
		if err := syscall.Setrlimit(resource, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	return release
}

// After a write error that does not pass, the server fails, as after an I/O error: only a
// new process may go on. Started again, it has all acknowledged writes.
func TestLastingWriteError(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	cfg := Config{DataDir: t.TempDir(), Sync: SyncGroup}
	srv := startServer(t, cfg)
	put(t, srv, "one")
	js := connect(t, srv)
	release := limitFiles(t, 64<<10)
	acknowledged := publishUntil(t, js, func(error) bool { return srv.Err() != nil })
	<-srv.Failed()
	release()
	if err := srv.Err(); err == nil || !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
		t.Errorf("failed with %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	again := startServer(t, cfg)
	if got := messages(t, again); got < acknowledged+1 {
		t.Errorf("%d messages are there, %d were acknowledged", got, acknowledged+1)
	}
}

// A flush of nats-server's own that fails is noticed, also when nobody writes.
func TestFailedFlushOfTheServer(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncInterval})
	put(t, srv, "one")
	if err := os.Symlink("/dev/null", filepath.Join(streamPath(srv), msgsDir, "index.db")); err != nil { // it cannot be flushed
		t.Fatal(err)
	}
	<-srv.Failed()
	if err := srv.Err(); !errors.Is(err, flush.ErrFailed) || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("failed with %v", err)
	}
}

// inOwnProcess runs the test in another process, and returns true there. What the test does
// to its process would also hit the files that package testing writes.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const marker = "KVSLOTS_TEST_OWN_PROCESS"
	if os.Getenv(marker) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), marker+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// limitFiles makes the process unable to write beyond a file's first bytes until release
// is called.
func limitFiles(t *testing.T, bytes uint64) (release func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // it would end the process
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	return limitResource(t, unix.RLIMIT_FSIZE, bytes)
}

// A server whose directory is taken away restarts once it may write there again.
func TestNoPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	dropRoot(t, filepath.Dir(dir))
	srv := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	put(t, srv, "one")
	js := connect(t, srv)
	msgs := filepath.Join(streamPath(srv), msgsDir)
	kvslotstest.Must(t, os.Chmod(msgs, 0o500))
	acknowledged := publishUntilNoRoom(t, srv, js, "permission denied")
	if err := srv.dir.Mend(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("nats-server may be started, and fails again: %v", err)
	}
	kvslotstest.Must(t, os.Chmod(msgs, 0o700))
	wantRecovered(t, srv, js, acknowledged+1)
}

// A client's write fails while a restarted server is still looked at: it waits to be restarted.
func TestJetStreamStopsDuringAStart(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir()})
	put(t, srv, "one")
	starting := &Server{dir: srv.dir, keys: srv.keys} // not in the hands of keepHealthy
	starting.now.Store(srv.now.Load())
	kvslotstest.Must(t, starting.nats().ShutdownJetStream())
	if err := starting.checkRecovery(t.Context()); !flush.Retriable(err) {
		t.Error(err)
	}
}

// dropRoot makes the process run as another user than root until the end of the test.
func dropRoot(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	kvslotstest.Must(t, errors.Join(os.Chown(dir, nobody, nobody), os.Chmod(filepath.Dir(dir), 0o711)))
	if err := syscall.Seteuid(nobody); err != nil {
		t.Skipf("this process cannot become another user: %v", err)
	}
	t.Cleanup(func() {
		kvslotstest.Must(t, syscall.Seteuid(0))
	})
	if _, err := os.ReadDir(dir); err != nil {
		t.Skipf("another user cannot reach the temporary directory: %v", err)
	}
}
