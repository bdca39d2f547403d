package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// The environment that "run" passes on has no variable of a flag that holds a secret.
func TestWithoutSecrets(t *testing.T) {
	secret := map[string]bool{
		"auth-token": true, "nats-user": true, "nats-password": true, "nats-token": true,
		"nats-url": true, "server": true, // given with user information
	}
	seen := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			seen[flag.Name] = true
			value := "hunter2"
			if flag.Name == "nats-url" || flag.Name == "server" {
				value = "https://u:hunter2@host:1"
			}
			if left := settings.WithoutSecrets([]string{settings.EnvName(flag.Name) + "=" + value}); len(left) == 0 != secret[flag.Name] {
				t.Errorf("--%s: %q is passed on", flag.Name, left)
			}
		})
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(rootCommand(noEnv))
	for name := range secret {
		if !seen[name] {
			t.Errorf("there is no flag --%s", name)
		}
	}
	others := []string{"PATH=/bin", "KVSLOTS_SERVER=http://host:1", "KVSLOTS_POOL=" + pool, "AUTH_TOKEN=theirs", "EMPTY="}
	if left := settings.WithoutSecrets(others); !slices.Equal(left, others) {
		t.Errorf("%q is left of %q", left, others)
	}
}

// No error repeats a secret that stands where it belongs, or in the wrong place.
func TestErrorsWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "hunter2")
	yaml := writeFile(t, "kvslots.yaml", "hunter2")
	broken := writeFile(t, "broken.json", `{"auth-token": hunter2}`)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"pool as a file", []string{"inspect", "@" + pool}, exitFailed, "the file given as <pool>: no such file or directory\n"},
		{"lease as a file", []string{"return", pool, "@" + pool}, exitFailed, "the file given as <lease>: no such file or directory\n"},
		{"directory as a file", []string{"inspect", "@" + dir}, exitFailed, "the file given as <pool>: is a directory\n"},
		{"pool as a command", []string{pool}, exitUsage, `unknown command "…" for "kvslots"`},
		{"pool for serve", []string{"serve", pool}, exitUsage, `unknown command "…" for "kvslots serve"`},
		{"pool as a number", []string{"register", pool, "--count", pool}, exitUsage, `invalid argument for "--count" flag: must be an integer`},
		{"password as a duration", []string{"borrow", pool, "--ttl", "hunter2"}, exitUsage, `invalid argument for "--ttl" flag: must be a duration`},
		{"password as a switch", []string{"inspect", pool, "--json=hunter2"}, exitUsage, `invalid argument for "--json" flag: `},
		{"password after a short flag", []string{"inspect", "-phunter2"}, exitUsage, "unknown shorthand flag: -p\n"},
		{"password as a flag", []string{"inspect", "--=hunter2"}, exitUsage, "bad flag syntax\n"},
		{"password in the server's URL", []string{"inspect", pool, "--server", "http://u:hunter2@127.0.0.1:1"}, exitFailed, "connection refused"},
		{"password in a bad URL", []string{"inspect", pool, "--server", "http://u:hunter2@a b"}, exitUsage, "--server must be a URL"},
		{"password in NATS's URL", []string{"inspect", pool, "--nats-url", "nats://u:hunter2@127.0.0.1:1"}, exitFailed, "NATS: "},
		{"token as a file", []string{"inspect", pool, "--auth-token-file", gone}, exitSettings, "--auth-token-file: no such file or directory\n"},
		{"credentials as a file", []string{"inspect", pool, "--nats-url", "a", "--nats-creds", gone}, exitFailed, "--nats-creds: no such file or directory\n"},
		{"seed as a file", []string{"inspect", pool, "--nats-url", "a", "--nats-nkey", gone}, exitFailed, "--nats-nkey: no such file or directory\n"},
		{"key as a file", []string{"inspect", pool, "--nats-url", "a", "--nats-tls-cert", yaml, "--nats-tls-key", gone}, exitFailed, "--nats-tls-key: no such file or directory\n"},
		{"password for a file of settings", []string{"serve", "--config", yaml}, exitUsage, "syntax error"},
		{"password in a broken file of settings", []string{"serve", "--config", broken}, exitUsage, "syntax error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, noEnv, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr, c.code, c.want)
			}
			for _, secret := range []string{"hunter2", pool} {
				if strings.Contains(stdout+stderr, secret) {
					t.Errorf("%q repeats %q", stdout+stderr, secret)
				}
			}
		})
	}
}

// The command of "run" gets none of the credentials with which run asks the gateway.
func TestRunCommandWithoutSecrets(t *testing.T) {
	token := "s3cr3t-of-run"
	p := startServe(t, map[string]string{"KVSLOTS_AUTH_TOKEN": token}, "--data-dir", t.TempDir())
	t.Setenv("KVSLOTS_AUTH_TOKEN", token)
	t.Setenv("KVSLOTS_NATS_PASSWORD", "hunter2")
	t.Setenv("KVSLOTS_SERVER", p.url)
	env := settings.ProcessEnvironment()
	delete(env, "KVSLOTS_NATS_PASSWORD")
	if code, _, stderr := call(t, env, "register", pool, "--count", "1"); code != exitDone {
		t.Fatal(stderr)
	}
	code, stdout, stderr := call(t, env, "run", pool, "--", "/usr/bin/env")
	if code != exitDone || !strings.Contains(stdout, "KVSLOTS_LEASE=") || !strings.Contains(stdout, "KVSLOTS_SERVER=") {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	for _, secret := range []string{token, "hunter2"} {
		if strings.Contains(stdout, secret) {
			t.Errorf("the command has %s in its environment", secret)
		}
	}
}
