package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The version that the linker has set is the same wherever the program shows one.
func TestVersionIsTheSameEverywhere(t *testing.T) {
	was := version
	t.Cleanup(func() { version = was })
	version = "v9.8.7-rc.1"

	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, out, _ := call(t, noEnv, args...); code != 0 || !strings.HasPrefix(out, "kvslots version v9.8.7-rc.1 (") {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	p.want(t, "GET", "/v1/openapi.json", "", 200, `"version":"v9.8.7-rc.1"`)
	p.want(t, "GET", "/metrics", "", 200, `kvslots_build_info{goversion="`+runtime.Version()+`",version="v9.8.7-rc.1"} 1`)
	m, err := connectNATS(t, p.natsURL(t)).RequestWithContext(t.Context(), "$SRV.PING.kvslots", nil)
	kvslotstest.Must(t, err)
	var ping micro.Ping
	if err := json.Unmarshal(m.Data, &ping); err != nil || ping.Version != "9.8.7-rc.1" {
		t.Errorf("$SRV.PING answers %s, %v", m.Data, err)
	}
}

// maxProgram is the maximal length of the program, in bytes.
const maxProgram = 28e6

// make release gives a program with the tag as its version, and its checksum; a second run
// gives the same bytes. It compiles everything for the release's flags.
func TestSoakRelease(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	name := "kvslots-v9.8.7-" + platform
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var sums [2]string
	for i := range sums {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), "make", "release", "VERSION=v9.8.7", "RELEASE="+dir,
			"PLATFORMS="+strings.Replace(platform, "-", "/", 1))
		command.Dir = moduleRoot
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		content, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		kvslotstest.Must(t, err)
		sums[i] = string(content)
		program, err := os.ReadFile(filepath.Join(dir, name))
		kvslotstest.Must(t, err)
		if sum := sha256.Sum256(program); !strings.Contains(sums[i], hex.EncodeToString(sum[:])+"  "+name+"\n") {
			t.Errorf("SHA256SUMS is\n%s", sums[i])
		}
		if len(program) > maxProgram {
			t.Errorf("the program has %d bytes: does it link text/template? See rootCommand", len(program))
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name), "version").Output()
		if err != nil || !strings.HasPrefix(string(out), "kvslots version v9.8.7 (commit ") {
			t.Errorf("%s, %v", out, err)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two runs give other bytes:\n%s\n%s", sums[0], sums[1])
	}
}
