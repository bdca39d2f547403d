package typescript_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/client/promisestest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

const root = "../../.."

// The client needs at least version 20.19 of Node.js, in which CommonJS can require an ES module.
const oldestMajor, oldestMinor = 20, 19

// The client passes its tests against gateways. The package that npm would publish is built in a
// directory of the test, with strict types, and the tests import it from there.
func TestClient(t *testing.T) {
	needNode(t)
	dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "kvslots")
	var building sync.WaitGroup
	building.Go(func() { buildGateway(t, binary) })
	t.Cleanup(building.Wait)
	for _, name := range []string{"src", "test"} {
		kvslotstest.Must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(name)))
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "README.md", "CHANGELOG.md", "LICENSE"} {
		write(t, filepath.Join(dir, name), read(t, name))
	}
	install(t, dir)
	run(t, dir, nil, "npm", "pack", "--silent") // which builds it
	building.Wait()
	gateways := &gateways{t, binary, kvslotstest.Start(t, "").ClientURL()}
	url := gateways.start().URL
	writeExamples(t, dir, url)
	run(t, dir, nil, "npx", "--no-install", "tsc", "-p", "test")
	description, err := filepath.Abs(filepath.Join(root, "gateway", "openapi.json"))
	kvslotstest.Must(t, err)
	certificate, key := writeCertificate(t)
	env := []string{
		"KVSLOTS_URL=" + url, "KVSLOTS_GATEWAYS=" + gateways.serve(), "KVSLOTS_OPENAPI=" + description,
		"KVSLOTS_CERT=" + certificate, "KVSLOTS_KEY=" + key,
	}
	if os.Getenv("KVSLOTS_COST") != "" {
		t.Run("cost", func(t *testing.T) { promisestest.Cost(t, command(dir, nil, "node", "test/out/driver.js")) })
		return
	}
	t.Run("suite", func(t *testing.T) {
		t.Parallel()
		t.Log(run(t, dir, env, "npm", "test", "--silent"))
	})
	t.Run("promises", func(t *testing.T) {
		t.Parallel()
		promisestest.Check(t, command(dir, nil, "node", "test/out/driver.js"))
	})
}

// TestLicense compares the license of the package with that of the repository.
func TestLicense(t *testing.T) {
	if !bytes.Equal(read(t, "LICENSE"), read(t, filepath.Join(root, "LICENSE"))) {
		t.Error("the package's license is another one")
	}
}

// needNode skips the test if Node.js or npm are not installed, or too old.
func needNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	version := strings.TrimSpace(run(t, ".", nil, "node", "--version"))
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil || major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		t.Skipf("node is %s, and the tests need %d.%d", version, oldestMajor, oldestMinor)
	}
}

// offline matches what npm prints if it cannot reach the registry.
var offline = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH`)

// install installs the compiler. It skips the test if that is not possible.
func install(t *testing.T, dir string) {
	t.Helper()
	out, err := command(dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline").CombinedOutput()
	if err != nil && offline.Match(out) {
		t.Skipf("npm cannot reach its registry:\n%s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// buildGateway may be called from any goroutine.
func buildGateway(t *testing.T, path string) {
	if out, err := command(root, []string{"CGO_ENABLED=0"}, "go", "build", "-o", path, "./cmd/kvslots").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// gateways starts gateways on one store, for tests in Node.js, which stop and kill them by their
// process ids. They end with the test.
type gateways struct {
	t            *testing.T
	binary, nats string // the program, and the URL of the NATS that has the store
}

// gateway is a process.
type gateway struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// serve starts an HTTP server that starts a gateway for each POST with its flags. It returns its
// URL.
func (g *gateways) serve() (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var flags []string
		if err := json.NewDecoder(r.Body).Decode(&flags); err != nil {
			g.t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(g.start(flags...)); err != nil {
			g.t.Error(err)
		}
	}))
	g.t.Cleanup(server.Close)
	return server.URL
}

// start starts a gateway. The result is empty if it does not listen, and the test has failed.
func (g *gateways) start(flags ...string) gateway {
	log := &logtest.Log{}
	process := exec.Command(g.binary, append([]string{"serve", "--http-addr", "127.0.0.1:0", "--nats-url", g.nats}, flags...)...)
	process.Stderr = log
	if err := process.Start(); err != nil {
		g.t.Error(err)
		return gateway{}
	}
	g.t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // it was killed
	})
	for line := range strings.Lines(log.Await(g.t, func(text string) bool { return strings.Contains(text, `"listening"`) })) {
		var started struct{ Message, HTTP string }
		if json.Unmarshal([]byte(line), &started) == nil && started.Message == "listening" {
			return gateway{URL: "http://" + started.HTTP, PID: process.Process.Pid}
		}
	}
	return gateway{}
}

// writeCertificate writes the certificate of httptest, which is for 127.0.0.1, and its key.
func writeCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	kvslotstest.Must(t, err)
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return certificate, key
}

var (
	example = regexp.MustCompile("(?ms)^```ts\n(.*?)^```$")
	uuid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	printed = regexp.MustCompile(`(?m)^ *console\.log\(.*; // (.*)$`)
)

// program is an example of a document. Each of its lines that prints says what.
type program struct {
	Name string   `json:"name"`
	Pool string   `json:"pool,omitempty"` // that it borrows from, of five slots
	Want []string `json:"want"`
}

// writeExamples writes the examples of the README, which are one program, and those of the recipes
// to test/examples. There they use the gateway at a URL.
func writeExamples(t *testing.T, dir, url string) {
	t.Helper()
	var readme strings.Builder
	for _, block := range example.FindAllStringSubmatch(string(read(t, "README.md")), -1) {
		readme.WriteString(block[1])
	}
	codes := []string{readme.String()}
	for _, block := range example.FindAllStringSubmatch(string(read(t, filepath.Join(root, "cmd", "kvslots", "RECIPES.md"))), -1) {
		codes = append(codes, block[1])
	}
	if readme.Len() == 0 || len(codes) < 7 {
		t.Errorf("found %d programs in the documents", len(codes))
	}
	var programs []program
	for i, code := range codes {
		p := program{Name: "example" + strconv.Itoa(i), Pool: uuid.FindString(code)}
		for _, line := range printed.FindAllStringSubmatch(code, -1) {
			p.Want = append(p.Want, line[1])
		}
		programs = append(programs, p)
		code = strings.ReplaceAll(code, "http://127.0.0.1:8080", url)
		write(t, filepath.Join(dir, "test", "examples", p.Name+".ts"), []byte(code))
	}
	list, err := json.Marshal(programs)
	kvslotstest.Must(t, err)
	write(t, filepath.Join(dir, "test", "out", "examples", "programs.json"), list)
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	kvslotstest.Must(t, err)
	return text
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	kvslotstest.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	kvslotstest.Must(t, os.WriteFile(file, text, 0o600))
}

// run runs a program in a directory, and returns its output. It fails the test if the program
// fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := command(dir, env, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func command(dir string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	return c
}
