package main

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// A variable that looks like a setting of kvslots, and is none, is named in one warning. Other
// commands' settings, what run and borrow set, and the links of Kubernetes are no mistakes.
func TestUnknownVariables(t *testing.T) {
	for _, c := range []struct {
		name string
		env  settings.Environment
		want string // the warning's variables
	}{
		{"misspelled", settings.Environment{"KVSLOTS_HTTP_ADR": "hunter2", "KVSLOTS_MAXTTL": "1h"}, "KVSLOTS_HTTP_ADR, KVSLOTS_MAXTTL"},
		{"a port of nothing", settings.Environment{"KVSLOTS_HTP_PORT": "80"}, "KVSLOTS_HTP_PORT"},
		{"of other commands", settings.Environment{"KVSLOTS_TTL": "1m", "KVSLOTS_MAX_TTL": "1h", "KVSLOTS_TIMEOUT": "1s", "KVSLOTS_BUCKET": "b"}, ""},
		{"of a lease", settings.Environment{"KVSLOTS_POOL": pool, "KVSLOTS_LEASE": "l", "KVSLOTS_POSITION": "0", "KVSLOTS_FENCE": "1", "KVSLOTS_EXPIRES_IN": "9"}, ""},
		{"of tests", settings.Environment{asProgram: "1", "KVSLOTS_SOAK": "1"}, ""},
		{"empty", settings.Environment{"KVSLOTS_HTTP_ADR": ""}, ""},
		{"links", settings.Environment{
			"KVSLOTS_SERVICE_HOST": "10.0.0.1", "KVSLOTS_SERVICE_PORT_HTTP": "8080", "KVSLOTS_PORT": "tcp://10.0.0.1:8080",
			"KVSLOTS_PORT_8080_TCP": "tcp://10.0.0.1:8080", "KVSLOTS_PORT_8080_TCP_ADDR": "10.0.0.1",
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := ""
			if c.want != "" {
				want = "kvslots: no flag has these environment variables, which are ignored: " + c.want + "\n"
			}
			for _, args := range [][]string{{"check-config"}, {"limit", "acquire", "k"}} {
				_, _, stderr := call(t, c.env, args...)
				if got, _, _ := strings.Cut(stderr, "kvslots: --jid"); got != want {
					t.Errorf("%v: got %q, want %q", args, got, want)
				}
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
