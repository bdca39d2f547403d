//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// The command line decides where a variable has the alternative of what it has.
func TestCommandLineBeforeVariables(t *testing.T) {
	p, url := startNATSTransport(t)
	gateway := []string{"--server", p.url}
	wantCall(t, 0, "count 1, .*\n", "", append([]string{"register", pool, "--count", "1"}, gateway...)...)
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		name   string
		env    settings.Environment
		args   []string
		code   int
		output string // what standard output or error begins with
	}{
		{"a command", settings.Environment{"KVSLOTS_COMMAND": "echo variable"}, shell(gateway, "echo line"), 0, "line\n"},
		{"a command of lock", settings.Environment{"KVSLOTS_COMMAND": "echo variable"}, underName(gateway, "echo line", "lock", "a"), 0, "line\n"},
		{"no command", settings.Environment{"KVSLOTS_COMMAND": "echo variable"}, append([]string{"lock", "a"}, gateway...), 0, "variable\n"},
		{"no command after --", settings.Environment{"KVSLOTS_COMMAND": "echo variable"}, append(append([]string{"lock", "a"}, gateway...), "--"), 0, "variable\n"},
		{"a wait", settings.Environment{"KVSLOTS_NO_WAIT": "true"}, shell(gateway, "echo line", "--wait", "1s"), 0, "line\n"},
		{"no wait", settings.Environment{"KVSLOTS_WAIT": "forever"}, shell(gateway, "echo line", "-n"), 0, "line\n"},
		{"a token", settings.Environment{"KVSLOTS_AUTH_TOKEN_FILE": missing}, append([]string{"inspect", pool, "--auth-token", "t"}, gateway...), 0, "count 1"},
		{"NATS", settings.Environment{"KVSLOTS_SERVER": "http://127.0.0.1:1"}, []string{"inspect", pool, "--nats-url", url}, 0, "count 1"},
		{"force", settings.Environment{"KVSLOTS_JID": "another"}, []string{"cosmo", "release", "mail/0", "--force", "--nats-url", "nats://" + closedPort(t)}, 1, "kvslots: NATS: "},
		{"a job", settings.Environment{"KVSLOTS_FORCE": "true"}, []string{"cosmo", "release", "mail/0", "--jid", "j", "--nats-url", "nats://" + closedPort(t)}, 1, "kvslots: NATS: "},

		// Without precedence, the error names the variable.
		{"two logins", settings.Environment{"KVSLOTS_NATS_CREDS": "c"}, []string{"inspect", pool, "--nats-url", url, "--nats-token", "t"}, 2,
			"kvslots: KVSLOTS_NATS_CREDS and --nats-token exclude each other\n"},
		{"no time to run", settings.Environment{"KVSLOTS_KILL_AFTER": "20s"}, shell(gateway, "echo line", "--ttl", "10s"), 2,
			"kvslots: KVSLOTS_KILL_AFTER must be less than --ttl"},
		{"two variables", settings.Environment{"KVSLOTS_JID": "j", "KVSLOTS_FORCE": "true"}, []string{"cosmo", "release", "mail/0"}, 2,
			"kvslots: KVSLOTS_JID and KVSLOTS_FORCE exclude each other\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, c.env, c.args...)
			if code != c.code || !strings.HasPrefix(stdout+stderr, c.output) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q", code, stdout, stderr, c.code, c.output)
			}
		})
	}
}
