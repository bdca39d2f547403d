package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCheckConfigReportsEverything(t *testing.T) {
	file := writeFile(t, "kvslots.yaml", "max-wait: 1.5\n# comment\nlog-level: loud\nbogus: 1\n")
	code, stdout, stderr := call(t, map[string]string{
		"KVSLOTS_SYNC":       "never",
		"KVSLOTS_AUTH_TOKEN": "two words",
		"KVSLOTS_LOG_FORMAT": "xml",
	}, "check-config", "--config", file, "--replicas", "6", "--max-ttl=soon", "--http-rate-burst", "5", "--nats-nkeys", "U",
		"--nats-user", "u", "--log-format", "json", "--nats-insecure=perhaps", "--http-addr", ":99999")
	want := `kvslots: --replicas: must be an integer between 1 and 5
--max-ttl: must be a duration in whole seconds such as "30s" or "1h", or a number of seconds, between 1s and 8760h
--nats-insecure: must be true or false
--http-addr: must be host:port with a port between 0 and 65535, such as "127.0.0.1:8080" or ":0"
KVSLOTS_SYNC: must be one of always, interval
config file ` + file + `: line 4: unknown key "bogus"
config file ` + file + `: line 3: log-level: must be one of debug, info, warn, error
config file ` + file + `: line 1: max-wait: must be a duration in whole seconds such as "30s" or "1h", or a number of seconds, between 1s and 8760h
--http-rate-burst needs --http-rate-limit
--nats-nkeys needs --nats-addr
--nats-user needs --nats-url or --nats-addr
--nats-user and --nats-password go together
KVSLOTS_AUTH_TOKEN must be 1 to 1000 ASCII characters, without spaces and control characters
Run 'kvslots check-config --help' for usage.
`
	if code != exitUsage || stdout != "" || stderr != want {
		t.Errorf("exit code %d, stdout %q\n got %s\nwant %s", code, stdout, stderr, want)
	}
}

// A rule between flags is not reported if one of the flags has an invalid value: it would be
// about the default.
func TestCheckConfigReportsNothingTwice(t *testing.T) {
	wantCall(t, exitUsage, "", "kvslots: --http-rate-limit: must be 0, or [^\n]*\nRun [^\n]*\n",
		"check-config", "--http-rate-limit", "-1", "--http-rate-burst", "5")
	wantCall(t, exitUsage, "", "kvslots: --http-addr and --http-port exclude each other\nRun [^\n]*\n",
		"check-config", "--http-addr", ":1", "--http-port", "1", "--config", writeFile(t, "a.yaml", "sync: always\n"))
}

// The URL may contain a password, so it is not repeated.
func TestCheckConfigChecksPorts(t *testing.T) {
	wantCall(t, exitUsage, "", "kvslots: --nats-url must be URLs such as nats://host:4222, with ports between 1 and 65535, separated by commas\nRun [^\n]*\n",
		"check-config", "--nats-url", "nats://127.0.0.1:99999")
}

func TestCheckConfigReadsFiles(t *testing.T) {
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
			code, _, stderr := call(t, noEnv, append([]string{"check-config"}, c.args...)...)
			got := regexp.MustCompile(`--([a-z-]+)`).FindAllString(stderr, -1)
			if code != exitFailed || !slices.Equal(got, c.want) || strings.Contains(stderr, "hunter2") {
				t.Errorf("exit code %d, %s", code, stderr)
			}
		})
	}
}

func TestCheckConfigPrintsNoSecret(t *testing.T) {
	env := map[string]string{"KVSLOTS_NATS_PASSWORD": "hunter2", "KVSLOTS_FORRST_FN_PASSWORD": "hunter2", "KVSLOTS_AUTH_TOKEN": "hunter2"}
	listener := []string{"--nats-addr", "127.0.0.1:0", "--nats-user", "u", "--forrst-fn-user", "f"}
	for _, c := range []struct {
		name  string
		env   map[string]string
		args  []string
		lines []string
	}{
		{"passwords", env, listener, []string{"# auth-token: (secret)  # environment\n", "# nats-password: (secret)  # environment\n"}},
		{"token", nil, []string{"--nats-addr", "127.0.0.1:0", "--nats-token", "hunter2"}, []string{"# nats-token: (secret)  # command line\n"}},
		{"URLs", nil, []string{"--nats-url", "nats://u:hunter2@a:1, hunter2@b,tls://u:h@hunter2@c,d"}, []string{"# nats-url: nats://a:1, b,tls://c,d (and a secret)"}},
		{"URL", nil, []string{"--nats-url", "nats://a,b"}, []string{"nats-url: 'nats://a,b'  # command line\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, c.env, append([]string{"check-config"}, c.args...)...)
			if code != exitDone || strings.Contains(stdout+stderr, "hunter2") {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			for _, line := range c.lines {
				if !strings.Contains(stdout, line) {
					t.Errorf("%q is not in\n%s", line, stdout)
				}
			}
		})
	}
}
