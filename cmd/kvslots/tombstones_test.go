package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// What a client leaves that registers and deletes pools all the time, over HTTP and then over
// NATS, is bounded, on disk and in memory, and another client is served. The other client is
// measured in turn with no flood, beside the same flood of another server, which takes processor
// time from it likewise, and beside the flood; so what else the machine does is in all of them.
// The markers live for 13 minutes. KVSLOTS_SOAK may be the length of the test; else it is an hour.
func TestTombstonesFloodSoak(t *testing.T) {
	soak(t)
	length, err := time.ParseDuration(os.Getenv("KVSLOTS_SOAK"))
	if err != nil {
		length = time.Hour
	}
	binary, dataDir := buildBinary(t), t.TempDir()
	p := startBinary(t, binary, "--data-dir", dataDir, "--nats-addr", "127.0.0.1:0")
	other := startBinary(t, binary, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--max-tombstones", "2")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	began := time.Now()
	for i, flood := range []string{"pools", "pools over NATS"} {
		var quiet, beside, flooded []time.Duration
		for time.Since(began) < length*time.Duration(i+1)/2 {
			quiet = append(quiet, p.windowP99(t))
			stop := other.startPoolFlood(t, flood)
			beside = append(beside, p.windowP99(t))
			stop()
			floodBegan := time.Now()
			stop = p.startPoolFlood(t, flood)
			flooded = append(flooded, p.windowP99(t))
			sent := stop()
			perSecond := func(n int64) float64 { return float64(n) / time.Since(floodBegan).Seconds() }
			t.Logf("minute %.0f, %s: %.0f cycles/s, %.0f refusals/s, %d without an answer; %d MB on disk, heap %.0f MB, %s resident; p99 quiet %v, beside a flood of another server %v, beside the flood %v",
				time.Since(began).Minutes(), flood, perSecond(sent.Served), perSecond(sent.Refused), sent.Failed,
				diskUse(t, dataDir)>>20, p.metric(t, "go_memstats_heap_inuse_bytes")/1e6, residentMemory(t, p.process.Process.Pid),
				quiet[len(quiet)-1], beside[len(beside)-1], flooded[len(flooded)-1])
			time.Sleep(settling)
		}
		base, same, got := median(quiet), median(beside), median(flooded)
		t.Logf("%s: medians of the p99 of an inspection in %d windows of 20 s: quiet %v, beside a flood of another server %v (%.1f times), beside the flood %v (%.1f times)",
			flood, len(quiet), base, same, ratio(same, base), got, ratio(got, base))
	}
}

// settling is the time from the beginning or the end of a flood to a measurement.
const settling = 5 * time.Second

func (p *gatewayProcess) startPoolFlood(t *testing.T, kind string) (stop func() floodCounts) {
	t.Helper()
	addr := strings.TrimPrefix(p.url, "http://")
	if kind == "pools over NATS" {
		addr = p.natsURL(t)
	}
	stop = startFlood(t, kind, addr)
	time.Sleep(settling)
	return stop
}

// windowP99 returns the p99 of a client's requests in 20 s.
func (p *gatewayProcess) windowP99(t *testing.T) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 4 {
		took = append(took, measured(t, strings.TrimPrefix(p.url, "http://"))...)
	}
	return p99(took)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
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

// diskUse returns the size of the files of a directory in bytes, of a file with several links once.
func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	var seen []fs.FileInfo
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // the server may have removed it
		}
		info, err := entry.Info()
		if err == nil && !slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			seen, size = append(seen, info), size+info.Size()
		}
		return nil
	})
	return size
}
