package main

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// A variable that looks like a setting of kvslots, and is none, is named in one warning. Other
// commands' settings, and what run and borrow set, are no mistakes.
func TestUnknownVariables(t *testing.T) {
	for _, c := range []struct {
		name string
		env  settings.Environment
		want string // the warning's variables
	}{
		{"misspelled", settings.Environment{"KVSLOTS_HTTP_ADR": "hunter2", "KVSLOTS_MAXTTL": "1h"}, "KVSLOTS_HTTP_ADR, KVSLOTS_MAXTTL"},
		{"of other commands", settings.Environment{"KVSLOTS_TTL": "1m", "KVSLOTS_MAX_TTL": "1h", "KVSLOTS_TIMEOUT": "1s", "KVSLOTS_BUCKET": "b"}, ""},
		{"of a lease", settings.Environment{"KVSLOTS_POOL": pool, "KVSLOTS_LEASE": "l", "KVSLOTS_POSITION": "0", "KVSLOTS_FENCE": "1", "KVSLOTS_EXPIRES_IN": "9", "KVSLOTS_SLOT": "mail/0"}, ""},
		{"of tests", settings.Environment{asProgram: "1", "KVSLOTS_SOAK": "1"}, ""},
		{"empty", settings.Environment{"KVSLOTS_HTTP_ADR": ""}, ""},
		{"a link of Kubernetes", settings.Environment{"KVSLOTS_PORT": "tcp://10.0.0.1:8080"}, "KVSLOTS_PORT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := ""
			if c.want != "" {
				want = "kvslots: no flag has these environment variables, which are ignored: " + c.want + "\n"
			}
			_, _, stderr := call(t, c.env, "cosmo", "acquire", "k")
			if got, _, _ := strings.Cut(stderr, "kvslots: --jid"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			p := startServe(t, c.env, "--data-dir", t.TempDir())
			log := p.logs.String()
			want = `"variables":["` + strings.ReplaceAll(c.want, ", ", `","`) + `"]`
			if n := strings.Count(log, `"variables"`); n != min(len(c.want), 1) || n == 1 && !strings.Contains(log, want) || strings.Contains(log, "hunter2") {
				t.Errorf("%d warnings:\n%s", n, log)
			}
			p.stop()
		})
	}
}

// An error names what the operator has written: variables and keys by their own names, and a
// flag that was not given only if it is missing.
func TestErrorsNameWhatWasGiven(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  settings.Environment
		file string
		want string
	}{
		{"two variables", nil, settings.Environment{"KVSLOTS_SYNC": "always", "KVSLOTS_NATS_URL": "a"}, "",
			"KVSLOTS_SYNC is for the embedded server: it excludes KVSLOTS_NATS_URL"},
		{"a variable and a flag", []string{"--data-dir", "d"}, settings.Environment{"KVSLOTS_NATS_URL": "a"}, "",
			"--data-dir is for the embedded server: it excludes KVSLOTS_NATS_URL"},
		{"a flag and a key", []string{"--nats-url", "a"}, nil, "max-store: 1G\n", "key max-store is for the embedded server: it excludes --nats-url"},
		{"the directory in the file", []string{"--nats-url", "a"}, nil, "data-dir: d\n", "key data-dir is for the embedded server: it excludes --nats-url"},
		{"variables that exclude each other", nil, settings.Environment{"KVSLOTS_NATS_URL": "a", "KVSLOTS_NATS_USER": "u", "KVSLOTS_NATS_PASSWORD": "p", "KVSLOTS_NATS_TOKEN": "t"}, "",
			"KVSLOTS_NATS_USER and KVSLOTS_NATS_TOKEN exclude each other"},
		{"one of two", nil, settings.Environment{"KVSLOTS_NATS_URL": "a", "KVSLOTS_NATS_USER": "u"}, "", "KVSLOTS_NATS_USER and --nats-password go together"},
		{"alternatives", nil, settings.Environment{"KVSLOTS_AUTH_TOKEN": "t", "KVSLOTS_AUTH_TOKEN_FILE": "f"}, "",
			"KVSLOTS_AUTH_TOKEN and KVSLOTS_AUTH_TOKEN_FILE exclude each other"},
		{"a token", nil, settings.Environment{"KVSLOTS_AUTH_TOKEN": "two words"}, "",
			"KVSLOTS_AUTH_TOKEN must be 1 to 1000 ASCII characters, without spaces and control characters"},
		{"a variable alone", nil, settings.Environment{"KVSLOTS_NATS_TOKEN": "t"}, "", "KVSLOTS_NATS_TOKEN needs --nats-url or --nats-addr"},
		{"a directory for every gateway", nil, settings.Environment{"KVSLOTS_DATA_DIR": "d", "KVSLOTS_NATS_URL": "a"}, "", ""},
		{"a file", nil, settings.Environment{"KVSLOTS_TLS_CERT": "/none", "KVSLOTS_TLS_KEY": "/none"}, "",
			"KVSLOTS_TLS_CERT: no such file or directory\nKVSLOTS_TLS_KEY: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"serve", "--check"}, c.args...)
			if c.file != "" {
				args = append(args, "--config", writeFile(t, "kvslots.yaml", c.file))
			}
			code, _, stderr := call(t, c.env, args...)
			text, _, _ := strings.Cut(stderr, "\nRun ")
			want := ""
			if c.want != "" {
				want = "kvslots: " + c.want
			}
			if strings.TrimSuffix(text, "\n") != want || (code == exitDone) != (want == "") {
				t.Errorf("exit code %d\ngot  %s\nwant %s", code, text, want)
			}
		})
	}
}
