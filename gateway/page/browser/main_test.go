package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// browserVariable is set to the path of Chromium. Without it the tests are skipped.
	browserVariable = "KVSLOTS_BROWSER"

	// picturesVariable is the directory for pictures of the page.
	picturesVariable = "KVSLOTS_PICTURES"

	// limit is how long a test waits for the page: for what takes milliseconds on a machine with
	// nothing else to do.
	limit = time.Minute
)

var (
	binary   string          // kvslots
	chromium context.Context // the browser of all tests
	pictures string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := os.Getenv(browserVariable)
	if path == "" {
		fmt.Println("the tests of the page are skipped: make test-browser runs them")
		return 0
	}
	dir, err := os.MkdirTemp("", "kvslots-browser-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "kvslots")
	build := exec.Command("go", "build", "-o", binary, "./cmd/kvslots")
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, out)
		return 1
	}
	if pictures = os.Getenv(picturesVariable); pictures == "" {
		pictures = filepath.Join(os.TempDir(), "kvslots-pictures")
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		fmt.Println(err)
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, // which cannot be had as root
		chromedp.WSURLReadTimeout(limit))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var stop context.CancelFunc
	chromium, stop = chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Println("Chromium:", err)
		return 1
	}
	return m.Run()
}

// gateway is kvslots serve in a process of its own.
type gateway struct {
	process *exec.Cmd
	ended   chan struct{}
	addr    string
	tcp     string // of --tcp-addr
	data    string // "": it uses nats
	nats    string // the URL of its NATS server
	flags   []string
	token   string
}

// serve starts a gateway, which ends with the test.
func serve(t *testing.T, flags ...string) *gateway {
	t.Helper()
	g := &gateway{addr: "127.0.0.1:0", data: t.TempDir(), flags: flags}
	t.Cleanup(func() { g.kill() })
	g.start(t)
	return g
}

// start starts the gateway, again at the address that it had.
func (g *gateway) start(t *testing.T) {
	t.Helper()
	flags := append([]string{"serve", "--http-addr", g.addr, "--max-wait", "1h"}, g.flags...)
	if g.data != "" {
		flags = append(flags, "--data-dir", g.data, "--sync", "interval")
	} else {
		flags = append(flags, "--nats-url", g.nats)
	}
	g.process = exec.Command(binary, flags...)
	log, err := g.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	g.ended = make(chan struct{})
	type listeners struct{ Message, HTTP, TCP string }
	listening := make(chan listeners, 1)
	go func() {
		defer close(g.ended)
		defer close(listening)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line listeners
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
				listening <- line
			}
		}
	}()
	at, ok := <-listening
	if !ok {
		t.Fatal("the gateway has ended")
	}
	g.addr, g.tcp = at.HTTP, at.TCP
}

// kill ends the process as a crash does.
func (g *gateway) kill() {
	if g.process == nil || g.process.Process == nil {
		return
	}
	_ = g.process.Process.Kill()
	<-g.ended
	_ = g.process.Wait() // it was killed
	g.process = nil
}

func (g *gateway) url() string { return "http://" + g.addr + "/" }

// ask sends a request, wants status 200, and decodes the answer into into, unless that is nil.
func (g *gateway) ask(t *testing.T, into any, method, path, body string) {
	t.Helper()
	if err := g.try(t.Context(), into, method, path, body); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) try(ctx context.Context, into any, method, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, g.url()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// register registers a pool with a name, and returns its hash.
func (g *gateway) register(t *testing.T, id string, count int, name string) (hash string) {
	t.Helper()
	g.ask(t, nil, "PUT", "l/"+id, fmt.Sprintf(`{"count":%d,"name":%q}`, count, name))
	var pool struct{ Hash string }
	g.ask(t, &pool, "GET", "l/"+id, "")
	return pool.Hash
}

// borrow borrows a slot, and returns the id of the lease.
func (g *gateway) borrow(t *testing.T, pool string, ttl int, label string) (lease string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"ttl": ttl, "label": label})
	var answer struct{ Lease string }
	g.ask(t, &answer, "POST", "l/"+pool+"/borrow", string(body))
	return answer.Lease
}

func (g *gateway) giveBack(t *testing.T, pool, lease string) {
	t.Helper()
	g.ask(t, nil, "POST", "l/"+pool+"/return", fmt.Sprintf(`{"lease":%q}`, lease))
}

// wait has a borrower wait in line until the test ends. It returns when the borrower is there.
func (g *gateway) wait(t *testing.T, pool, label string) {
	t.Helper()
	var before, now struct{ Waiting int }
	g.ask(t, &before, "GET", "l/"+pool, "")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		body, _ := json.Marshal(map[string]any{"ttl": 60, "wait": 3600, "label": label})
		_ = g.try(ctx, nil, "POST", "l/"+pool+"/borrow", string(body)) // ended by the test
	}()
	eventually(t, "a borrower in line", func() bool {
		g.ask(t, &now, "GET", "l/"+pool, "")
		return now.Waiting > before.Waiting
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); {
		if time.Now().After(end) {
			t.Fatalf("there is no %s", what)
		}
	}
}
