package main

import (
	"context"
	"crypto/tls"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// careful calls commands that have credentials, and prints none of them. What they print to standard error is
// searched for secrets of all kinds; borrow prints a lease to standard output.
type careful struct{ credentials []string }

func (c *careful) call(t *testing.T, env map[string]string, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := call(t, env, args...)
	if code == exitUsage {
		t.Errorf("%s: wrong usage: %s", args[0], stderr)
	}
	c.check(t, args[0], stdout)
	return stdout
}

func (c *careful) check(t *testing.T, command, stdout string) {
	t.Helper()
	for _, text := range c.credentials {
		if strings.Contains(stdout, text) {
			t.Errorf("%s prints a credential: %s", command, stdout)
		}
	}
}

// watch runs the command until it has printed a state.
func (c *careful) watch(t *testing.T, env map[string]string, pool string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stdout, ended := &logtest.Output{}, make(chan int)
	go func() { ended <- run(ctx, []string{"watch", pool}, strings.NewReader(""), stdout, &logtest.Log{}, env) }()
	stdout.Await(t, func(text string) bool { return strings.Contains(text, "\n") })
	stop()
	<-ended
	c.check(t, "watch", stdout.String())
}

// Commands print no credentials, private keys included, and no secret on standard error.
// None of them is in the gateway's log, metrics and data either. It is reached over TLS with
// client certificates, and over NATS with nkeys.
func TestSecretsOfCommands(t *testing.T) {
	cert, key := selfSigned(t)
	ours, oursKey := selfSigned(t)
	_, public, seed := newNkey(t)
	token, password := uuid.NewString(), uuid.NewString()
	c := &careful{[]string{token, password}}
	for _, file := range []string{key, oursKey, seed} {
		content, err := os.ReadFile(file)
		kvslotstest.Must(t, err)
		c.credentials = append(c.credentials, strings.Split(strings.TrimSpace(string(content)), "\n")...)
	}
	p := startServe(t, map[string]string{"KVSLOTS_AUTH_TOKEN": token}, "--data-dir", t.TempDir(), "--log-level", "debug",
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
		pool := uuid.NewString()
		c.call(t, env, "register", pool, "--count", "2")
		c.watch(t, env, pool)
		if out := c.call(t, env, "borrow", pool, "--ttl", "60"); !strings.Contains(out, "KVSLOTS_LEASE=") {
			t.Error("no lease was seen")
		}
		c.call(t, env, "run", pool, "--ttl", "60", "--", "true")
		c.call(t, env, "return", pool, uuid.NewString())
		c.call(t, env, "delete", pool)
		c.call(t, env, "inspect", pool)
		for name, value := range map[string]string{"KVSLOTS_AUTH_TOKEN": uuid.NewString(), "KVSLOTS_TLS_KEY": seed, "KVSLOTS_NATS_NKEY": oursKey} {
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
	c.call(t, withPassword, "cosmo", "acquire", "mail", "--jid", "j")
	c.call(t, withPassword, "cosmo", "list")
	c.call(t, withPassword, "cosmo", "release", "mail/0", "--jid", "j")
	c.call(t, withPassword, "cosmo", "run", "mail", "--", "env")
	withPassword["KVSLOTS_NATS_PASSWORD"] = uuid.NewString()
	c.call(t, withPassword, "cosmo", "acquire", "mail", "--jid", "j")
	p.searchAnswers(t, token)
}
