package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every value that is wrong in the environment and the file is reported at once, or else every
// rule that is broken.
func TestServeCheckReportsEverything(t *testing.T) {
	file := writeFile(t, "kvslots.yaml", "max-wait: 1.5\n# comment\nlog-level: loud\nbogus: 1\n")
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{"KVSLOTS_SYNC": "never", "KVSLOTS_LOG_FORMAT": "xml"}, []string{"--config", file, "--log-format", "json"}, `KVSLOTS_SYNC: must be one of always, interval
config file ` + file + `: line 4: unknown key "bogus"
config file ` + file + `: line 3: log-level: must be one of debug, info, warn, error
config file ` + file + `: line 1: max-wait: must be a duration in whole seconds such as "30s" or "1h", or a number of seconds, between 1s and 8760h
`},
		{map[string]string{"KVSLOTS_AUTH_TOKEN": "two words"}, []string{"--nats-nkeys", "U", "--nats-user", "u"}, `--nats-nkeys needs --nats-addr
--nats-user needs --nats-url or --nats-addr
--nats-user and --nats-password go together
KVSLOTS_AUTH_TOKEN must be 1 to 1000 ASCII characters, without spaces and control characters
`},
		{nil, []string{"--nats-url", "nats://127.0.0.1:99999"}, "--nats-url must be URLs such as nats://host:4222, with ports between 1 and 65535, separated by commas\n"},
	} {
		code, stdout, stderr := call(t, c.env, append([]string{"serve", "--check"}, c.args...)...)
		if want := "kvslots: " + c.want + "Run 'kvslots serve --help' for usage.\n"; code != exitUsage || stdout != "" || stderr != want {
			t.Errorf("exit code %d, stdout %q\n got %s\nwant %s", code, stdout, stderr, want)
		}
	}
	wantCall(t, exitDone, "the settings are valid\n", "", "serve", "--check", "--data-dir", t.TempDir()+"/none", "--log-level", "debug")
}

func TestServeCheckReadsFiles(t *testing.T) {
	none := t.TempDir() + "/none"
	noPEM := writeFile(t, "no.pem", "hunter2")
	for _, c := range []struct {
		name string
		args []string
		want []string // flags that the errors name
	}{
		{"token", []string{"--auth-token-file", none}, []string{"--auth-token-file"}},
		{"credentials", []string{"--nats-url", "a", "--nats-creds", none}, []string{"--nats-creds"}},
		{"seed", []string{"--nats-url", "a", "--nats-nkey", none}, []string{"--nats-nkey"}},
		{"certificates of a client", []string{"--nats-url", "a", "--nats-tls-ca", noPEM, "--nats-tls-cert", none, "--nats-tls-key", noPEM},
			[]string{"--nats-tls-cert", "--nats-tls-ca"}},
		{"certificates of a listener", []string{"--nats-addr", ":0", "--nats-tls-ca", noPEM, "--nats-tls-cert", noPEM, "--nats-tls-key", noPEM},
			[]string{"--nats-tls-cert", "--nats-tls-key", "--nats-tls-ca"}},
		{"certificates for HTTP", []string{"--tls-cert", noPEM, "--tls-key", noPEM}, []string{"--tls-cert", "--tls-key"}},
		{"authorities of clients over HTTP", []string{"--tls-cert", noPEM, "--tls-key", noPEM, "--tls-client-ca", none}, []string{"--tls-client-ca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := call(t, noEnv, append([]string{"serve", "--check"}, c.args...)...)
			got := regexp.MustCompile(`--([a-z-]+)`).FindAllString(stderr, -1)
			if code != exitFailed || !slices.Equal(got, c.want) || strings.Contains(stderr, "hunter2") {
				t.Errorf("exit code %d, %s", code, stderr)
			}
		})
	}
}
