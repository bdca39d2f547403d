package codegen

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startGateway builds kvslots and starts it on a port that the kernel picks. It returns the
// gateway's URL. The process ends with the test.
func startGateway(t *testing.T) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kvslots")
	run(t, "../..", "go", "build", "-o", binary, "./cmd/kvslots")
	process := exec.Command(binary, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir())
	log, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-drained
		_ = process.Wait() // it was killed
	})
	listening := make(chan string, 1)
	go func() {
		defer close(drained)
		defer close(listening)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			t.Log(lines.Text())
			var line struct{ Message, HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
				listening <- "http://" + line.HTTP
			}
		}
	}()
	url, ok := <-listening
	if !ok {
		t.Fatal("the gateway has ended")
	}
	return url
}

// saveDescription writes the document that a gateway serves to a file.
func saveDescription(t *testing.T, url, file string) {
	t.Helper()
	answer, err := http.Get(url + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", answer.Status, err)
	}
	write(t, file, text)
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program in a directory, and fails the test if it fails.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if out, err := command(dir, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}
