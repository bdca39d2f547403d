package main

import (
	"net/http"
	"net/http/httptest"
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
	other := closedPort(t)
	closing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer closing.Close()
	named := "localhost" + strings.TrimPrefix(address(secure), "127.0.0.1")
	secureNATS := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--nats-tls-cert", cert, "--nats-tls-key", key, "--insecure", "nats")
	namedNATS := strings.Replace(secureNATS.natsURL(t), "127.0.0.1", "localhost", 1)
	inspect, ready, both := []string{"inspect"}, []string{"ready"}, []string{"inspect", "ready"}
	for name, c := range map[string]struct {
		of   []string // commands
		args []string
		want []string
	}{
		"refused":              {both, []string{"--server", "http://ann:hunter2@" + closed}, []string{"http://" + closed + ": ", "connection refused", "is --server right"}},
		"two refused":          {both, []string{"--server", "http://" + closed + ",http://" + other}, []string{"http://" + closed + ": connect: connection refused", "http://" + other + ": connect: connection refused", "is --server right"}},
		"two causes":           {inspect, []string{"--server", "http://" + closed + "," + closing.URL}, []string{"http://" + closed + ": connect: connection refused", closing.URL + ": the server closed the connection", "is --server right"}},
		"NATS refused":         {inspect, []string{"--nats-url", "nats://ann:hunter2@" + closed}, []string{"nats://" + closed + ": connect: connection refused", "is --nats-url right"}},
		"two of NATS":          {inspect, []string{"--nats-url", "nats://ann:hunter2@" + closed + ",nats://" + other}, []string{closed + ": connect: connection refused", other + ": connect: connection refused", "is --nats-url right"}},
		"TLS expected":         {both, []string{"--server", "http://" + address(secure)}, []string{"http://" + address(secure) + ": ", "https://", "correct --server"}},
		"no TLS":               {both, []string{"--server", "https://" + address(plain)}, []string{"https://" + address(plain) + ": ", "http://", "correct --server"}},
		"authority":            {both, []string{"--server", "https://" + address(secure)}, []string{"https://" + address(secure) + ": ", "certificate", "--tls-ca names"}},
		"another name":         {both, []string{"--server", "https://" + named, "--tls-ca", cert}, []string{"https://" + named + ": ", "certificate", "--server must name the host"}},
		"authority of NATS":    {inspect, []string{"--nats-url", secureNATS.natsURL(t)}, []string{secureNATS.natsURL(t) + ": ", "certificate", "--nats-tls-ca names"}},
		"another name of NATS": {inspect, []string{"--nats-url", namedNATS, "--nats-tls-ca", cert}, []string{namedNATS + ": ", "certificate", "--nats-url must name the host"}},
		"no token":             {inspect, []string{"--server", plain.url}, []string{"unauthorized", plain.url, "requires a token", "--auth-token-file"}},
		"wrong token":          {inspect, []string{"--server", plain.url, "--auth-token", "hunter3"}, []string{"unauthorized", plain.url, "--auth-token"}},
		"a proxy's":            {ready, []string{"--server", fixedAnswer(t, 401, "")}, []string{"http://127.0.0.1:", "401 Unauthorized", "no token", "is --server right"}},
		"closed":               {inspect, []string{"--server", closing.URL}, []string{"; is --server right?"}},
		"a redirect":           {inspect, []string{"--server", fixedAnswer(t, 302, "")}, []string{"; is --server right?"}},
		"a path":               {inspect, []string{"--server", plain.url + "/l", "--auth-token", "hunter2"}, []string{"not found", "--server must be " + plain.url, "/l"}},
		"a path of ready":      {ready, []string{"--server", plain.url + "/l"}, []string{plain.url + ": ", "not ready: 401 Unauthorized", "--server must be " + plain.url, "/l"}},
	} {
		for _, command := range c.of {
			t.Run(command+" "+name, func(t *testing.T) {
				args := append([]string{command}, c.args...)
				if command == "inspect" {
					args = append(args, pool)
				}
				code, _, stderr := call(t, noEnv, args...)
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
	}
	// A flag that was given in the environment is named so.
	_, _, stderr := call(t, map[string]string{"KVSLOTS_SERVER": "http://" + closed}, "inspect", pool)
	if !strings.Contains(stderr, "is KVSLOTS_SERVER right") {
		t.Error(stderr)
	}
}
