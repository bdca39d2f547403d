package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A client that registers and deletes pools is refused when it has left half of
// --max-tombstones. Nothing else is.
func TestServeTombstones(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--max-tombstones", "20", "--nats-addr", "127.0.0.1:0")
	serveFunction(t, p.logs.waitFor(t, "listening")["nats"].(string), "a.b", done)
	kept := "/l/" + uuid.NewString()
	p.ask(t, "PUT", kept, `{"count":2}`)
	for n := range 10 {
		pool := "/l/" + uuid.NewString()
		if code, body := p.ask(t, "PUT", pool, `{"count":1}`); code != http.StatusOK {
			t.Fatalf("after %d deletions: %d %s", n, code, body)
		}
		p.ask(t, "DELETE", pool, "")
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "/l/" + uuid.NewString(), `{"count":1}`, `"the address has left too many`},
		{"POST", "/v1/sessions", "", `"max_tombstones"`},
		{"POST", "/rpc", rpc("a.b", `{}`, lock30), `"RATE_LIMITED","message":"The address has left too many`},
	} {
		code, header, body := p.askWith(t, nil, c.method, c.path, c.body)
		if code != http.StatusTooManyRequests || header.Get("Kvslots-Error") != "max_tombstones" && c.path != "/rpc" ||
			header.Get("Retry-After") != "30" || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %v %s", c.path, code, header, body)
		}
	}
	for _, body := range []string{`{"count":3}`, `{"count":1}`} {
		if code, answer := p.ask(t, "PUT", kept, body); code != http.StatusOK {
			t.Errorf("another count: %d %s", code, answer)
		}
	}
	if code, body := p.ask(t, "POST", kept+"/borrow", `{"ttl":5}`); code != http.StatusOK {
		t.Errorf("a borrow: %d %s", code, body)
	}
}

// What a client leaves that registers and deletes pools all the time is bounded, on disk and in
// memory, and another client is served. The markers live for 13 minutes.
func TestTombstonesFloodSoak(t *testing.T) {
	soak(t)
	dataDir := t.TempDir()
	p := startBinary(t, buildBinary(t), "--data-dir", dataDir, "--max-tombstones", "40000")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	addr := strings.TrimPrefix(p.url, "http://")
	quiet := p99(measured(t, addr))
	stop := startFlood(t, "pools", addr)
	var table strings.Builder
	for range 20 {
		time.Sleep(55 * time.Second)
		got := p99(measured(t, addr))
		fmt.Fprintf(&table, "%s of memory, %d KB on disk, p99 of an inspection %v (%.1f times)\n",
			residentMemory(t, p.process.Process.Pid), diskUse(t, dataDir)>>10, got, ratio(got, quiet))
	}
	t.Logf("the flood: %+v; every minute:\n%s", stop(), &table)
}

// residentMemory returns the memory of a process, as Linux says it.
func residentMemory(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Skip("there is no /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	size, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(size)
}

// diskUse returns the size of the files of a directory in bytes.
func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // the server may have removed it
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
