package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestCluster(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "secret")
		kvslotstest.Must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	secret, short := file(strings.Repeat("hunter2-", 4)+"\n"), file("hunter2")
	three := func(args ...string) []string {
		return append([]string{"--cluster", "127.0.0.1,198.51.100.1,198.51.100.2:7000"}, args...)
	}
	for _, c := range []struct {
		name string
		args []string
		want string // in the error; none when empty
	}{
		{"by its address", three("--cluster-secret-file", secret), ""},
		{"named", three("--cluster-secret-file", secret, "--cluster-self", "198.51.100.2:7000"), ""},
		{"no secret", three(), "--cluster needs --cluster-secret-file: kvslots cluster secret writes one"},
		{"short secret", three("--cluster-secret-file", short), "the secret has 7 bytes, and must have at least 32"},
		{"no file", three("--cluster-secret-file", secret+"x"), "--cluster-secret-file: no such file"},
		{"another machine", three("--cluster-secret-file", secret, "--cluster-self", "d"), "--cluster-self must be one of --cluster, which are 127.0.0.1, 198.51.100.1, 198.51.100.2:7000"},
		{"not this machine", []string{"--cluster", "198.51.100.1,198.51.100.2,198.51.100.3", "--cluster-secret-file", secret}, "say with --cluster-self which of 198.51.100.1, 198.51.100.2, 198.51.100.3 this is"},
		{"two machines", []string{"--cluster", "127.0.0.1,b", "--cluster-secret-file", secret}, "a cluster has 3 or 5 nodes, and 2 are given"},
		{"twice", []string{"--cluster", "127.0.0.1,b,b", "--cluster-self", "b", "--cluster-secret-file", secret}, "a node is given twice"},
		{"interval", three("--cluster-secret-file", secret, "--sync", "interval"), "sync interval does not go with a cluster"},
		{"a part of the certificates", three("--cluster-tls-ca", "a"), "go together"},
		{"secret and certificates", three("--cluster-secret-file", secret, "--cluster-tls-ca", "a", "--cluster-tls-cert", "c", "--cluster-tls-key", "k"), "exclude each other"},
		{"elsewhere", three("--cluster-secret-file", secret, "--nats-url", "a"), "--cluster is for the embedded server"},
		{"secret alone", []string{"--cluster-secret-file", secret}, "--cluster-secret-file needs --cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.args, nil)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
