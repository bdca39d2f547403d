//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// makePipe makes a pipe to which nothing writes. A reader that waits for a writer gets an
// end of file at the end of the test.
func makePipe(t *testing.T, path string) {
	t.Helper()
	kvslotstest.Must(t, unix.Mkfifo(path, 0o600))
	t.Cleanup(func() {
		if writer, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			writer.Close()
		}
	})
}

// A pipe in place of a file that a setting names is an error at once.
func TestPipesAreNotRead(t *testing.T) {
	cert, key := selfSigned(t)
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	makePipe(t, pipe)
	nats := []string{"--nats-url", "nats://127.0.0.1:1"}
	listener := []string{"--nats-addr", "127.0.0.1:0"}
	common := []string{"--http-addr", "127.0.0.1:0"}
	for _, c := range []struct {
		want string // in the error
		args []string
	}{
		{"--auth-token-file", []string{"--auth-token-file", pipe}},
		{"--tls-cert", []string{"--tls-cert", pipe, "--tls-key", key}},
		{"--tls-key", []string{"--tls-cert", cert, "--tls-key", pipe}},
		{"--tls-client-ca", []string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", pipe}},
		{"config file", []string{"--config", pipe}},
		{"--nats-creds", slices.Concat(nats, []string{"--nats-creds", pipe})},
		{"--nats-nkey", slices.Concat(nats, []string{"--nats-nkey", pipe})},
		{"--nats-tls-ca", slices.Concat(nats, []string{"--nats-tls-ca", pipe})},
		{"--nats-tls-cert", slices.Concat(listener, []string{"--nats-tls-cert", pipe, "--nats-tls-key", key})},
		{"--nats-tls-key", slices.Concat(listener, []string{"--nats-tls-cert", cert, "--nats-tls-key", pipe})},
		{"--nats-tls-ca", slices.Concat(listener, []string{"--nats-tls-cert", cert, "--nats-tls-key", key, "--nats-tls-ca", pipe})},
		{"--auth-token-file", []string{"--auth-token-file", t.TempDir()}},
		{"--auth-token-file", []string{"--auth-token-file", "/dev/zero"}},
	} {
		wantIrregular(t, c.want, slices.Concat([]string{"serve"}, common, c.args)...)
	}
}

// wantIrregular runs a command that does not wait for its files, and says that one of them, of
// the flag, is no regular file.
func wantIrregular(t *testing.T, flag string, args ...string) {
	t.Helper()
	code, _, stderr := call(t, noEnv, args...)
	if !strings.Contains(stderr, flag) || !strings.Contains(stderr, "not a regular file") {
		t.Errorf("%v: exit code %d: %s", args, code, stderr)
	}
}

// The same holds for client commands.
func TestPipesAreNotReadByCommands(t *testing.T) {
	cert, key := selfSigned(t)
	pipe := filepath.Join(t.TempDir(), "pipe.pem")
	makePipe(t, pipe)
	overHTTP, overNATS := []string{"--server", "https://127.0.0.1:1"}, []string{"--nats-url", "nats://127.0.0.1:1"}
	for _, command := range [][]string{{"inspect", pool}, {"ready"}, {"bench"}} {
		ask := slices.Concat(command, overHTTP)
		wantIrregular(t, "--tls-ca", append(ask, "--tls-ca", pipe)...)
		wantIrregular(t, "--tls-cert", append(ask, "--tls-cert", pipe, "--tls-key", key)...)
		wantIrregular(t, "--tls-key", append(ask, "--tls-cert", cert, "--tls-key", pipe)...)
	}
	for _, command := range [][]string{{"inspect", pool}, {"backup", "-"}, {"cosmo", "release", "a/0", "--jid", "j"}} {
		ask := slices.Concat(command, overNATS)
		for _, flag := range []string{"--nats-nkey", "--nats-creds", "--nats-tls-ca"} {
			wantIrregular(t, flag, append(ask, flag, pipe)...)
		}
	}
}

// mounted is a directory as Kubernetes mounts a secret: names are links through the link
// ..data to a directory with the current version.
type mounted struct {
	t        *testing.T
	dir      string
	versions int
}

func (m *mounted) file(name string) string { return filepath.Join(m.dir, name) }

// change makes a new version, into which write puts the files.
func (m *mounted) change(write func(dir string), names ...string) {
	m.t.Helper()
	m.versions++
	version := "..v" + strings.Repeat("x", m.versions)
	try := func(err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	try(os.Mkdir(m.file(version), 0o700))
	write(m.file(version))
	try(os.Symlink(version, m.file("..data_tmp")))
	try(os.Rename(m.file("..data_tmp"), m.file("..data")))
	if m.versions == 1 {
		for _, name := range names {
			try(os.Symlink(filepath.Join("..data", name), m.file(name)))
		}
	}
}

// A pipe in place of a file that is read again is an error in the log. It delays neither
// later reloads nor the end.
func TestPipesAreNotReadAgain(t *testing.T) {
	token := func(text string) func(dir string) {
		return func(dir string) {
			kvslotstest.Must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(text), 0o600))
		}
	}
	pipe := func(dir string) { makePipe(t, filepath.Join(dir, "token")) }
	const reloaded, failed = "reloaded", "not a regular file"
	m := &mounted{t: t, dir: t.TempDir()}
	m.change(token("first-one"), "token")
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token-file", m.file("token"))
	for i, c := range []struct {
		write  func(dir string)
		logged string // so often by then
		times  int
		token  string // in force
	}{
		{token("second-one"), reloaded, 1, "second-one"},
		{pipe, failed, 1, "second-one"},
		{token("third-one"), reloaded, 2, "third-one"},
		{pipe, failed, 2, "third-one"},
	} {
		m.change(c.write)
		hangUp(t)
		p.logs.Await(t, func(text string) bool { return strings.Count(text, c.logged) >= c.times })
		code, _, metrics := p.askWith(t, http.Header{"Authorization": {"Bearer " + c.token}}, "GET", "/metrics", "")
		if code != 200 || !strings.Contains(metrics, "\nkvslots_file_age_seconds ") {
			t.Errorf("step %d: %d\n%s", i, code, metrics)
		}
	}
	p.end(t)
}

// A file with a secret that every user may write is worth a warning, one that they may only
// read is not.
func TestWritableSecrets(t *testing.T) {
	const warning = "every user of this machine may write this file, which has a secret"
	secret, plain := "auth-token: "+secretToken+"\n", "log-level: debug\n"
	for _, c := range []struct {
		flag, content string
		mode          os.FileMode
		warns         bool
	}{
		{"config", secret, 0o666, true}, {"config", secret, 0o602, true}, {"config", secret, 0o644, false}, {"config", plain, 0o666, false},
		{settings.TokenFileFlag, secretToken, 0o606, true}, {settings.TokenFileFlag, secretToken, 0o444, false},
	} {
		file := writeFile(t, "settings.yaml", c.content)
		kvslotstest.Must(t, os.Chmod(file, c.mode))
		p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--"+c.flag, file)
		if text := p.logs.String(); strings.Contains(text, warning) != c.warns || c.warns && !strings.Contains(text, `"flag":"`+c.flag+`"`) {
			t.Errorf("--%s %#o: logged\n%s", c.flag, c.mode, text)
		}
		p.stop()
	}
}
