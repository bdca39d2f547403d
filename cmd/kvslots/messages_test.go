package main

import (
	"strings"
	"testing"
)

// An error names the URL, without secrets, the cause, and the flag that helps.
func TestMessages(t *testing.T) {
	cert, key := selfSigned(t)
	plain := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token", "hunter2")
	secure := startServe(t, noEnv, "--data-dir", t.TempDir(), "--tls-cert", cert, "--tls-key", key)
	address := func(p *program) string { return p.url[strings.Index(p.url, "//")+2:] }
	closed := closedPort(t)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"refused":      {[]string{"--server", "http://ann:hunter2@" + closed}, []string{"http://" + closed + ": ", "connection refused", "--server"}},
		"NATS refused": {[]string{"--nats-url", "nats://ann:hunter2@" + closed}, []string{"nats://" + closed + ": ", "no servers available", "--nats-url"}},
		"TLS expected": {[]string{"--server", "http://" + address(secure)}, []string{"http://" + address(secure) + ": ", "https://", "--server"}},
		"no TLS":       {[]string{"--server", "https://" + address(plain)}, []string{"https://" + address(plain) + ": ", "http://", "--server"}},
		"authority":    {[]string{"--server", "https://" + address(secure)}, []string{"https://" + address(secure) + ": ", "certificate", "--tls-ca"}},
		"no token":     {[]string{"--server", plain.url}, []string{"unauthorized", plain.url, "requires a token", "--auth-token-file"}},
		"wrong token":  {[]string{"--server", plain.url, "--auth-token", "hunter3"}, []string{"unauthorized", plain.url, "--auth-token"}},
		"a path":       {[]string{"--server", plain.url + "/l", "--auth-token", "hunter2"}, []string{"not found", "--server must be " + plain.url, "/l"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := call(t, noEnv, append([]string{"inspect", pool}, c.args...)...)
			if code != exitFailed || strings.Contains(stderr, "hunter") || strings.Contains(stderr, pool) {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in %s", want, stderr)
				}
			}
		})
	}
	// A flag that was given in the environment is named so.
	_, _, stderr := call(t, map[string]string{"KVSLOTS_SERVER": "http://" + closed}, "inspect", pool)
	if !strings.Contains(stderr, "is KVSLOTS_SERVER right") {
		t.Error(stderr)
	}
}
