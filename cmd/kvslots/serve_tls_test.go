package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// startTLS runs serve with TLS.
func startTLS(t *testing.T, args ...string) *program {
	t.Helper()
	p := startServe(t, noEnv, append([]string{"--data-dir", t.TempDir()}, args...)...)
	p.url = "https" + strings.TrimPrefix(p.url, "http")
	return p
}

// Commands reach a gateway over TLS if they trust its certificate.
func TestServeTLS(t *testing.T) {
	cert, key := selfSigned(t)
	p := startTLS(t, "--tls-cert", cert, "--tls-key", key)
	server := []string{"--server", p.url}
	wantCall(t, 0, "count 1, .*", "", append([]string{"register", pool, "--count", "1", "--tls-ca", cert}, server...)...)
	wantCall(t, 0, ".*POSITION=0\n.*", "", append([]string{"borrow", pool, "--tls-ca", cert}, server...)...)
	wantCall(t, 0, "ready, sync always\n", "", append([]string{"ready", "--tls-ca", cert}, server...)...)
	wantCall(t, 1, "", "kvslots: .*certificate.*--tls-ca.*\n", append([]string{"ready"}, server...)...)
	if code, _, stderr := call(t, noEnv, append([]string{"inspect", pool}, server...)...); code != exitFailed || !strings.Contains(stderr, "certificate") {
		t.Errorf("without the authority: exit code %d, %s", code, stderr)
	}
	if resp, err := http.Get("http" + strings.TrimPrefix(p.url, "https") + "/health"); err == nil {
		if resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("plain HTTP is answered %d", resp.StatusCode)
		}
	}
}

func TestServeAsksForClientCertificates(t *testing.T) {
	cert, key := selfSigned(t)
	ours, oursKey := selfSigned(t)
	p := startTLS(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours)
	ask := []string{"inspect", pool, "--server", p.url, "--tls-ca", cert}
	wantCall(t, 1, "", "kvslots: no such pool\n", append(ask, "--tls-cert", ours, "--tls-key", oursKey)...)
	if code, _, stderr := call(t, noEnv, ask...); code != exitFailed || strings.Contains(stderr, "no such pool") {
		t.Errorf("without a certificate: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := call(t, noEnv, append(ask, "--tls-cert", cert, "--tls-key", key)...); code != exitFailed || strings.Contains(stderr, "no such pool") {
		t.Errorf("with the certificate of another authority: exit code %d, %s", code, stderr)
	}
}

// replace puts the content of one file into another, in one step.
func replace(t *testing.T, name, with string) {
	t.Helper()
	content, err := os.ReadFile(with)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, os.WriteFile(name+".new", content, 0o600))
	kvslotstest.Must(t, os.Rename(name+".new", name))
}

// SIGHUP replaces the certificate. Connections that were made before continue.
func TestCertificatesAreReloaded(t *testing.T) {
	cert, key := selfSigned(t)
	newCert, newKey := selfSigned(t)
	p := startTLS(t, "--tls-cert", cert, "--tls-key", key)
	addr := strings.TrimPrefix(p.url, "https://")
	conn, err := tls.Dial("tcp", addr, trusting(t, cert))
	kvslotstest.Must(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	ask := func() {
		t.Helper()
		io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		io.Copy(io.Discard, resp.Body)
	}
	ask()
	trustsNew := trusting(t, newCert)
	replace(t, cert, newCert)
	replace(t, key, newKey)
	hangUp(t)
	p.logs.waitFor(t, "reloaded")
	fresh, err := tls.Dial("tcp", addr, trustsNew)
	kvslotstest.Must(t, err)
	fresh.Close()
	ask()
}

// hangUp sends SIGHUP to serve, which runs in the process of the test.
func hangUp(t *testing.T) {
	t.Helper()
	this, err := os.FindProcess(os.Getpid())
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, this.Signal(syscall.SIGHUP))
}

func trusting(t *testing.T, cert string) *tls.Config {
	t.Helper()
	content, err := os.ReadFile(cert)
	kvslotstest.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(content)
	return &tls.Config{RootCAs: pool}
}

// Each change of the file is in force without a restart: two tokens, then the new one.
func TestTokensAreReloaded(t *testing.T) {
	file := writeFile(t, "token", "old-token\n")
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token-file", file, "--log-level", "debug")
	const reloaded, failed = "reloaded", "cannot read a changed file"
	for i, c := range []struct {
		content  string
		old, new int    // status with each token
		logged   string // so often by then
		times    int
	}{
		{"old-token\nnew-token\n", 404, 404, reloaded, 1},
		{"new-token\n", 401, 404, reloaded, 2},
		{"", 401, 404, failed, 1}, // stays as before
		{"new-token\nold-token", 404, 404, reloaded, 3},
	} {
		replace(t, file, writeFile(t, "token", c.content))
		hangUp(t)
		p.logs.Await(t, func(text string) bool { return strings.Count(text, c.logged) >= c.times })
		for token, want := range map[string]int{"old-token": c.old, "new-token": c.new, "another": 401} {
			code, _, _ := p.askWith(t, http.Header{"Authorization": {"Bearer " + token}}, "GET", "/l/"+pool, "")
			if code != want {
				t.Errorf("step %d, %s: %d, want %d", i, token, code, want)
			}
		}
	}
	if strings.Contains(p.logs.String(), "-token\"") || strings.Contains(p.logs.String(), "old-token") {
		t.Errorf("a token is in the log:\n%s", p.logs)
	}
}

// A listener that other machines can reach needs access control.
func TestServeRefusesToBeOpen(t *testing.T) {
	cert, key := selfSigned(t)
	refused := [][]string{
		{"--http-addr", ":0"}, {"--http-addr", "0.0.0.0:0"}, {"--http-addr", "[::]:0"}, {"--http-addr", "example.com:0"},
		{"--http-addr", ":0", "--tls-cert", cert, "--tls-key", key},
	}
	for _, args := range refused {
		code, _, stderr := call(t, noEnv, append([]string{"serve", "--data-dir", t.TempDir()}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, "--http-addr can be reached from other machines") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{
		{"--insecure", "http"}, {"--auth-token", secretToken},
		{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert},
	} {
		p := startServe(t, noEnv, append([]string{"--data-dir", t.TempDir(), "--http-addr", "0.0.0.0:0"}, args...)...)
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		kvslotstest.Must(t, err)
		conn.Close()
		p.stop()
	}
	for _, args := range [][]string{
		{"--tls-cert", cert}, {"--tls-key", key}, {"--tls-client-ca", cert},
	} {
		if code, _, stderr := call(t, noEnv, append([]string{"serve", "--data-dir", t.TempDir()}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := call(t, noEnv, "serve", "--data-dir", t.TempDir(), "--tls-cert", key, "--tls-key", key); code != exitFailed || !strings.Contains(stderr, "--tls-cert") {
		t.Errorf("no certificate: exit code %d, %s", code, stderr)
	}
}
