package python_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/client/promisestest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asGateway) != "" {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}

// timeout ends a test program that hangs.
const timeout = 5 * time.Minute

// python returns the interpreter, without what may be around it, such as pyenv's shell script. It
// skips the test if there is none that is new enough.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 10); print(sys.executable)").Output()
	if err != nil {
		t.Skipf("there is no python3 of version 3.10 or later: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// run runs a program in this directory, and fails the test if it fails.
func run(t *testing.T, env []string, name string, args ...string) (output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), append(env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src")...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) } // it stops its gateways
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	logtest.Search("the output of "+filepath.Base(name), out)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestPython runs the client's own tests, each file in a process, against gateways of this
// release on one NATS.
func TestPython(t *testing.T) {
	interpreter := python(t)
	t.Parallel()
	files, err := filepath.Glob("tests/test_*.py")
	if err != nil || len(files) < 5 {
		t.Fatalf("found only %q, %v", files, err)
	}
	program, err := os.Executable()
	kvslotstest.Must(t, err)
	dir := t.TempDir()
	writeCertificate(t, dir)
	env := []string{
		"KVSLOTS_TEST_PROGRAM=" + program, "KVSLOTS_TEST_TLS=" + dir,
		"KVSLOTS_TEST_NATS_URL=" + kvslotstest.Start(t, "").ClientURL(),
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".py")
		all.Go(func() { // not t.Parallel, which runs one a processor: most of them wait
			t.Run(name, func(t *testing.T) {
				out := run(t, env, interpreter, "-W", "error", "-m", "unittest", "tests."+name)
				ran := strings.Contains(out, "\nOK") && !strings.Contains(out, "Ran 0 tests")
				if clean := !strings.Contains(out, "ResourceWarning") && !strings.Contains(out, "Traceback"); !ran || !clean {
					t.Errorf("unittest has printed\n%s", out)
				}
			})
		})
	}
}

// writeCertificate writes cert.pem and key.pem, which are valid for 127.0.0.1.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kvslotstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	kvslotstest.Must(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	kvslotstest.Must(t, err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		kvslotstest.Must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// TestPromises drives the client through what all clients promise, with threads and with asyncio.
func TestPromises(t *testing.T) {
	interpreter := python(t)
	for _, flag := range []string{"--threads", "--asyncio"} {
		t.Run(strings.TrimLeft(flag, "-"), func(t *testing.T) {
			t.Parallel()
			promisestest.Check(t, driver(interpreter, "-W", "error", "-m", "tests.driver", flag))
		})
	}
}

func TestCost(t *testing.T) {
	interpreter := python(t)
	for _, flag := range []string{"--threads", "--asyncio"} {
		t.Run(strings.TrimLeft(flag, "-"), func(t *testing.T) {
			promisestest.Cost(t, driver(interpreter, "-m", "tests.driver", flag))
		})
	}
}

func driver(interpreter string, args ...string) *exec.Cmd {
	driver := exec.Command(interpreter, args...)
	driver.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src")
	return driver
}

// TestInstall builds the sdist and the wheel without a network, as a release would, installs the
// one that is made of the other, and imports it from there.
func TestInstall(t *testing.T) {
	const installed = "from importlib.util import find_spec; assert all(map(find_spec, ('pip', 'setuptools', 'wheel')))"
	interpreters := []string{python(t), "/usr/bin/python3"} // the system's has what is needed more often
	found := slices.IndexFunc(interpreters, func(i string) bool { return exec.Command(i, "-c", installed).Run() == nil })
	if found < 0 {
		t.Skip("pip, setuptools or wheel is not installed")
	}
	interpreter := interpreters[found]
	t.Parallel()
	sources, dist, target := t.TempDir(), t.TempDir(), t.TempDir() // setuptools leaves files beside the sources
	kvslotstest.Must(t, os.CopyFS(sources, os.DirFS(".")))
	run(t, nil, interpreter, "-c", "import os, sys; from setuptools import build_meta; os.chdir(sys.argv[1]); build_meta.build_sdist(sys.argv[2])", sources, dist)
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-build-isolation", "--target", target}
	sdists, err := filepath.Glob(filepath.Join(dist, "kvslots-*.tar.gz"))
	if err != nil || len(sdists) != 1 {
		t.Fatalf("found %q, %v", sdists, err)
	}
	run(t, nil, interpreter, append(pip, sdists...)...)
	metadata, err := filepath.Glob(filepath.Join(target, "kvslots-*.dist-info", "LICENSE"))
	if err != nil || len(metadata) != 1 {
		t.Errorf("the package has no license: %v", err)
	}
	if _, err := os.Stat(filepath.Join(target, "kvslots", "py.typed")); err != nil {
		t.Error(err)
	}
	run(t, nil, interpreter, "-c", "import sys; sys.path[:] = [p for p in sys.path if p != 'src']; sys.path.insert(0, sys.argv[1]); "+
		"import importlib.metadata, kvslots; assert kvslots.__file__.startswith(sys.argv[1]), kvslots.__file__; "+
		"assert importlib.metadata.version('kvslots') == kvslots.__version__", target)
}

// TestLicense compares the license of the package, which is built from this directory alone, with that of the repository.
func TestLicense(t *testing.T) {
	ours, err := os.ReadFile("LICENSE")
	kvslotstest.Must(t, err)
	root, err := os.ReadFile("../../../LICENSE")
	if err != nil || string(ours) != string(root) {
		t.Errorf("the package's license is another one: %v", err)
	}
}

// TestTypes checks the types of the client and its tests.
func TestTypes(t *testing.T) {
	mypy, err := exec.LookPath("mypy")
	if err != nil {
		t.Skip("mypy is not installed")
	}
	t.Parallel()
	run(t, nil, mypy, "--strict", "--python-version", "3.10", "--cache-dir", t.TempDir(), "src", "tests")
}
