package settings

import (
	"strings"
	"testing"
)

func TestServeRules(t *testing.T) {
	external := func(args ...string) []string { return append([]string{"--nats-url", "a"}, args...) }
	for _, c := range []struct {
		name string
		args []string
		want string // in the error; none when empty
	}{
		{"defaults", nil, ""},
		{"one URL", []string{"--nats-url", "nats://127.0.0.1:4222"}, ""},
		{"several URLs", []string{"--nats-url", "tls://a:4222, b:4222,ws://c"}, ""},
		{"URL with a password", []string{"--nats-url", "nats://u:p@a:4222"}, ""},
		{"TCP on loopback", []string{"--tcp-addr", "[::1]:0"}, ""},
		{"TCP for everyone", []string{"--tcp-addr", ":6388"}, "--tcp-addr can be reached from other machines"},
		{"TCP for everyone, by request", []string{"--tcp-addr", ":6388", "--insecure", "nats,tcp"}, ""},
		{"TCP with a token", []string{"--tcp-addr", ":6388", "--auth-token", "hunter2"}, ""},
		{"TCP for everyone on HTTP", []string{"--tcp-addr", ":6388", "--insecure", "http"}, "--tcp-addr can be reached from other machines"},
		{"TCP with TLS alone", []string{"--tcp-addr", ":6388", "--tls-cert", "c", "--tls-key", "k"}, "--tcp-addr can be reached from other machines"},
		{"TCP with client certificates", []string{"--tcp-addr", ":6388", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"}, "--tls-cert: no such file"},
		{"replicas elsewhere", external("--replicas", "3"), ""},
		{"user and password", external("--nats-user", "u", "--nats-password", "hunter2"), ""},
		{"other scheme", []string{"--nats-url", "http://hunter2@a"}, "--nats-url must be"},
		{"not a URL", []string{"--nats-url", "nats://u:hunter2@a:b:c"}, "--nats-url must be"},
		{"port of a URL out of range", []string{"--nats-url", "b, nats://u:hunter2@a:65536"}, "--nats-url must be URLs such as nats://host:4222, with ports between 1 and 65535"},
		{"port 0 of a URL", []string{"--nats-url", "a:0"}, "--nats-url must be"},
		{"highest port of a URL", []string{"--nats-url", "a:65535,b:"}, ""},
		{"empty URL in the list", []string{"--nats-url", "a,,b"}, "--nats-url must be"},
		{"user alone", external("--nats-user", "u"), "go together"},
		{"password alone", external("--nats-password", "hunter2"), "go together"},
		{"creds and user", external("--nats-creds", "f", "--nats-user", "u", "--nats-password", "hunter2"), "--nats-creds and --nats-user exclude each other"},
		{"reply prefixes", external("--nats-reply-prefixes", "app.inbox"), ""},
		{"reply prefixes over functions", external("--nats-reply-prefixes", "app.inbox,forrst"), "--forrst-fn-prefix"},
		{"reply prefixes among functions", external("--nats-reply-prefixes", "forrst.fn.x"), "--forrst-fn-prefix"},
		{"reply prefixes beside functions", external("--nats-reply-prefixes", "forrst.fnx"), ""},
		{"events", external("--publish-events"), ""},
		{"events without URL", []string{"--publish-events"}, "--publish-events needs --nats-url"},
		{"reply prefixes without URL", []string{"--nats-reply-prefixes", "app.inbox"}, "--nats-reply-prefixes needs --nats-url"},
		{"creds without URL", []string{"--nats-creds", "f"}, "--nats-creds needs --nats-url"},
		{"sync of another server", external("--sync", "always"), "--sync is for the embedded server: it excludes --nats-url"},
		{"directory of another server", external("--data-dir", "d"), "--data-dir is for the embedded server: it excludes --nats-url"},
		{"listener of another server", external("--nats-addr", ":0"), "--nats-addr is for the embedded server: it excludes --nats-url"},
		{"maxima of another server", external("--nats-max-connections", "1"), "--nats-max-connections is for the embedded server"},
		{"switched off", external("--nats-nkeys", "", "--max-store", "0"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.args, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is in %q", err)
			}
		})
	}
}
