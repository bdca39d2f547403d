package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// leaked returns parts of an id that a stack dump shows: four successive bytes as the
// elements of an array, or five as text or within a little-endian word. One of the
// thousands of addresses in a dump has four bytes of a random id now and then.
func leaked(dump string, id uuid.UUID) (found []string) {
	has := func(text string) {
		if strings.Contains(dump, text) {
			found = append(found, text)
		}
	}
	for i := range len(id) - 3 {
		has(fmt.Sprintf("%#x, %#x, %#x, %#x", id[i], id[i+1], id[i+2], id[i+3]))
	}
	for i := range len(id) - 4 {
		part := slices.Clone(id[i : i+5])
		has(hex.EncodeToString(part))
		slices.Reverse(part)
		has(hex.EncodeToString(part))
	}
	return found
}

// TestLeaked shows that leaked finds an id in the dump of a function that has it among
// its arguments.
func TestLeaked(t *testing.T) {
	id := uuid.New()
	if found := leaked(dumpWith(id), id); len(found) == 0 {
		t.Error("nothing was found")
	}
	if found := leaked(id.String(), id); len(found) == 0 {
		t.Error("the text was not found")
	}
}

//go:noinline
func dumpWith(id uuid.UUID) string { return allStacks() + string(id[:0]) }

func allStacks() string {
	buffer := make([]byte, 16<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// ids have no byte twice and no byte that is often found in addresses.
var (
	heldPool    = uuid.MustParse("9183a5b7-d9eb-4d8f-a1b3-c5d7e9fb1d3f")
	waitingPool = uuid.MustParse("8593a1bf-cddb-49e7-95a3-b1cfdde9f715")
)

// A dump of the program, which SIGQUIT causes, shows no bytes of ids, while clients wait
// over HTTP and over NATS.
func TestDumpOfProgram(t *testing.T) {
	process := newProcess(t, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	logs := newLogs()
	process.Stderr = logs
	startProcess(t, process)
	listening := logs.waitFor(t, "listening")
	url := "http://" + listening["http"].(string)
	over := natsclient.New(connectNATS(t, listening["nats"].(string)), client.Config{})
	leases := map[uuid.UUID]uuid.UUID{}
	for _, pool := range []uuid.UUID{heldPool, waitingPool} {
		kvslotstest.Must(t, kvslotstest.Err(over.Register(t.Context(), pool, 1)))
		lease, err := over.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		kvslotstest.Must(t, err)
		leases[pool] = lease.ID()
	}
	go over.Borrow(t.Context(), waitingPool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute))
	go func() {
		answer, err := http.Post(url+"/l/"+heldPool.String()+"/borrow", "application/json", strings.NewReader(`{"ttl":60,"wait":60}`))
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}()
	for _, pool := range []uuid.UUID{heldPool, waitingPool} {
		for {
			if state, err := over.Inspect(t.Context(), pool); err != nil || state.Waiting == 1 {
				break
			}
		}
	}
	dump := quit(t, process, logs)
	if !strings.Contains(dump, "(*Store).Borrow+") {
		t.Fatalf("no borrow in the dump:\n%s", dump)
	}
	for pool, lease := range leases {
		if found := append(leaked(dump, pool), leaked(dump, lease)...); len(found) > 0 {
			t.Errorf("the dump shows %q:\n%s", found, dump)
		}
	}
}

// quit ends a process with SIGQUIT and returns what it wrote.
func quit(t *testing.T, process *exec.Cmd, logs *logs) string {
	t.Helper()
	if code := endBy(t, process, syscall.SIGQUIT); code != 2 { // as of every Go program
		t.Errorf("exit code %d", code)
	}
	return logs.String()
}
