package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// addKey adds a private key in a file: its lines, and its bytes in all forms.
func (s *secrets) addKey(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	kvslotstest.Must(t, err)
	var raw []byte
	if block, _ := pem.Decode(content); block != nil {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		kvslotstest.Must(t, err)
		raw, err = key.(*ecdsa.PrivateKey).Bytes()
		kvslotstest.Must(t, err)
	} else if _, raw, err = nkeys.DecodeSeed(content); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "-----") {
			s.add("a line of a key", strings.TrimSpace(line))
		}
	}
	s.addForm("key in binary", raw)
	s.addEncoded("key from binary", raw)
}

// commandSecrets checks what commands print.
type commandSecrets struct {
	all         *secrets // none of which may be on standard error
	credentials *secrets // none of which may be on standard output; borrow prints a lease there
}

func (c *commandSecrets) fresh(kind string) string {
	text := uuid.NewString()
	c.all.add(kind, text)
	return text
}

func (c *commandSecrets) check(t *testing.T, command, stdout, stderr string) {
	t.Helper()
	c.all.learn(stdout)
	c.all.wantNone(t, "standard error of "+command, []byte(stderr))
	c.credentials.wantNone(t, "standard output of "+command, []byte(stdout))
}

func (c *commandSecrets) call(t *testing.T, env map[string]string, args ...string) {
	t.Helper()
	code, stdout, stderr := call(t, env, args...)
	if code == exitUsage {
		t.Errorf("%s: wrong usage: %s", args[0], stderr)
	}
	c.check(t, args[0], stdout, stderr)
}

// watch runs the command until it has printed a state.
func (c *commandSecrets) watch(t *testing.T, env map[string]string, pool string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stdout, stderr, ended := &logtest.Output{}, &logtest.Log{}, make(chan int)
	go func() { ended <- run(ctx, []string{"watch", pool}, strings.NewReader(""), stdout, stderr, env) }()
	stdout.Await(t, func(text string) bool { return strings.Contains(text, "\n") })
	stop()
	<-ended
	c.check(t, "watch", stdout.String(), stderr.String())
}

// Commands print no credentials, private keys included, and no secret on standard error.
// None of them is in the gateway's log, metrics and data either. It is reached over TLS with
// client certificates, and over NATS with nkeys.
func TestSecretsOfCommands(t *testing.T) {
	c, dir := &commandSecrets{newSecrets(), newSecrets()}, t.TempDir()
	cert, key := selfSigned(t)
	ours, oursKey := selfSigned(t)
	_, public, seed := newNkey(t)
	token, password := c.fresh("auth token"), c.fresh("NATS password")
	for _, of := range []*secrets{c.all, c.credentials} {
		of.add("auth token", token)
		of.add("NATS password", password)
		for _, file := range []string{key, oursKey, seed} {
			of.addKey(t, file)
		}
	}
	p := startServe(t, map[string]string{"KVSLOTS_AUTH_TOKEN": token}, "--data-dir", dir, "--log-level", "debug",
		"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours,
		"--nats-addr", "127.0.0.1:0", "--nats-tls-cert", cert, "--nats-tls-key", key, "--nats-nkeys", public)
	p.url = "https" + strings.TrimPrefix(p.url, "http")
	pair, err := tls.LoadX509KeyPair(ours, oursKey)
	kvslotstest.Must(t, err)
	p.tls = trusting(t, cert)
	p.tls.Certificates = []tls.Certificate{pair}
	overHTTP := map[string]string{
		"KVSLOTS_SERVER": p.url, "KVSLOTS_AUTH_TOKEN": token,
		"KVSLOTS_TLS_CA": cert, "KVSLOTS_TLS_CERT": ours, "KVSLOTS_TLS_KEY": oursKey,
	}
	overNATS := map[string]string{"KVSLOTS_NATS_URL": p.natsURL(t), "KVSLOTS_NATS_NKEY": seed, "KVSLOTS_NATS_TLS_CA": cert}
	for _, env := range []map[string]string{overHTTP, overNATS} {
		pool := c.fresh("pool")
		c.call(t, env, "register", pool, "--count", "2")
		c.watch(t, env, pool)
		before := len(c.all.known)
		if c.call(t, env, "borrow", pool, "--ttl", "60"); len(c.all.known) != before+1 {
			t.Error("no lease was seen")
		}
		c.call(t, env, "run", pool, "--ttl", "60", "--", "true")
		c.call(t, env, "return", pool, c.fresh("wrong lease"))
		c.call(t, env, "delete", pool)
		c.call(t, env, "inspect", pool)
		for name, value := range map[string]string{"KVSLOTS_AUTH_TOKEN": c.fresh("wrong token"), "KVSLOTS_TLS_KEY": seed, "KVSLOTS_NATS_NKEY": oursKey} {
			if _, used := env[name]; used {
				wrong := maps.Clone(env)
				wrong[name] = value
				c.call(t, wrong, "inspect", pool)
			}
		}
	}
	c.call(t, overHTTP, append(shortBench, "--workload", "pairs")...)
	if id := anyUUID.FindString(p.logs.String()); id != "" { // the pools of bench are in no output
		t.Errorf("the log holds %s", id)
	}

	options := jetStreamOptions(t)
	options.Username, options.Password = "cosmo", password
	_, url := runNATS(t, options)
	withPassword := map[string]string{"KVSLOTS_NATS_URL": url, "KVSLOTS_NATS_USER": "cosmo", "KVSLOTS_NATS_PASSWORD": password}
	c.call(t, withPassword, "limit", "acquire", "mail", "--jid", "j")
	c.call(t, withPassword, "limit", "list")
	c.call(t, withPassword, "limit", "release", "mail/0", "--jid", "j")
	c.call(t, withPassword, "limit", "run", "mail", "--", "env")
	withPassword["KVSLOTS_NATS_PASSWORD"] = c.fresh("wrong password")
	c.call(t, withPassword, "limit", "acquire", "mail", "--jid", "j")
	c.all.wantNoneOf(t, p, token, dir)
}
