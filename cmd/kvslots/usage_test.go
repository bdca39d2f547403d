package main

import (
	"strings"
	"testing"
)

func TestCommandsUsage(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		stderr string // what it contains
	}{
		{"no pool", []string{"inspect"}, "no <pool>, and no KVSLOTS_POOL"},
		{"no UUID", []string{"inspect", "hunter2"}, "<pool> must be a canonical UUID"},
		{"UUID without dashes", []string{"inspect", strings.ReplaceAll(pool, "-", "")}, "<pool> must be a canonical UUID"},
		{"new and a pool", []string{"register", pool, "--new", "--count", "1"}, "<pool> and --new exclude each other"},
		{"no count", []string{"register", pool}, "--count is missing"},
		{"count too high", []string{"register", pool, "--count", "1001"}, "between 0 and 1000"},
		{"return nothing", []string{"return"}, "kvslots: <pool> or <lease> is missing: give both, or set KVSLOTS_POOL or KVSLOTS_LEASE\n"},
		{"return one of two", []string{"return", pool}, "<pool> or <lease> is missing: give both, or set KVSLOTS_POOL"},
		{"renew one of two", []string{"renew", pool}, "<pool> or <lease> is missing: give both, or set KVSLOTS_POOL"},
		{"return too much", []string{"return", pool, pool, pool}, "too many arguments: only [<pool>] [<lease>] may be given"},
		{"inspect too much", []string{"inspect", pool, pool}, "too many arguments: only [<pool>] may be given"},
		{"cosmo acquire nothing", []string{"cosmo", "acquire"}, "kvslots: <key> is missing\n"},
		{"cosmo release nothing", []string{"cosmo", "release"}, "kvslots: <slot> is missing\n"},
		{"backup nowhere", []string{"backup"}, "kvslots: FILE is missing\n"},
		{"restore nothing", []string{"restore"}, "kvslots: FILE is missing\n"},
		{"completion for nothing", []string{"completion"}, "kvslots: bash|zsh|fish is missing\n"},
		{"lease no UUID", []string{"return", pool, "hunter2"}, "<lease> must be a canonical UUID"},
		{"ttl 0", []string{"borrow", pool, "--ttl", "0"}, "between 1s and"},
		{"fraction of ttl", []string{"borrow", pool, "--ttl", "1500ms"}, "whole seconds"},
		{"negative wait", []string{"borrow", pool, "--wait", "-1s"}, "between 0s and"},
		{"two transports", []string{"inspect", pool, "--server", "http://h", "--nats-url", "nats://h"}, "exclude each other"},
		{"server no URL", []string{"inspect", pool, "--server", "hunter2"}, "--server must be a URL"},
		{"server of another kind", []string{"inspect", pool, "--server", "ftp://hunter2"}, "--server must be a URL"},
		{"server's port out of range", []string{"inspect", pool, "--server", "http://h:99999"}, "--server must be a URL such as http://127.0.0.1:8080, with a port between 1 and 65535"},
		{"NATS's port out of range", []string{"inspect", pool, "--nats-url", "nats://h:99999"}, "with ports between 1 and 65535"},
		{"NATS no URL", []string{"inspect", pool, "--nats-url", "http://hunter2"}, "--nats-url must be URLs"},
		{"user without password", []string{"inspect", pool, "--nats-url", "nats://h", "--nats-user", "u"}, "go together"},
		{"two ways in", []string{"inspect", pool, "--nats-url", "nats://h", "--nats-token", "t", "--nats-creds", "c"}, "exclude each other"},
		{"run nothing", []string{"run", pool}, "the command is missing"},
		{"run nothing after --", []string{"run", pool, "--"}, "the command is missing"},
		{"run without --", []string{"run", pool, "true"}, "the command is missing"},
		{"run with more before --", []string{"run", pool, "true", "--", "x"}, "too many arguments: only [<pool>] may be given"},
		{"kill-after as long as ttl", []string{"run", pool, "--ttl", "5s", "--kill-after", "5s", "--", "true"}, "--kill-after must be less than --ttl"},
		{"kill-after longer", []string{"run", pool, "--ttl", "5s", "--kill-after", "1m", "--", "true"}, "--kill-after must be less than --ttl"},
		{"kill-after leaves nothing", []string{"run", pool, "--ttl", "5s", "--kill-after", "4800ms", "--", "true"}, "by more than 250ms"},
		{"another shell", []string{"completion", "csh"}, `invalid argument "csh"`},
		{"cosmo without jid", []string{"cosmo", "acquire", "mail"}, "--jid is missing"},
		{"limit 0", []string{"cosmo", "acquire", "mail", "--jid", "j", "--limit", "0"}, "between 1 and 1000"},
		{"release whose", []string{"cosmo", "release", "mail/0"}, "either --jid, --revision or both"},
		{"release both", []string{"cosmo", "release", "mail/0", "--jid", "j", "--force"}, "--jid and --force exclude each other"},
		{"release revision 0", []string{"cosmo", "release", "mail/0", "--revision", "0"}, "either --jid, --revision or both"},
		{"release revision -1", []string{"cosmo", "release", "mail/0", "--revision", "-1"}, "--revision"},
		{"limit run without a command", []string{"cosmo", "run", "mail"}, "the command is missing"},
		{"limit run without a key", []string{"cosmo", "run", "--", "true"}, "kvslots: <key> is missing\n"},
		{"limit run without time", []string{"cosmo", "run", "mail", "--duration", "1s", "--kill-after", "750ms", "--", "true"}, "--kill-after must be less than --duration"},
		{"limit replicas", []string{"cosmo", "list", "--replicas", "6"}, "between 1 and 5"},
		{"lock nothing", []string{"lock", "a"}, "the command is missing"},
		{"lock nothing by name", []string{"lock", "--", "true"}, "kvslots: NAME is missing\n"},
		{"sem nothing by name", []string{"sem", "--limit", "1", "--", "true"}, "kvslots: NAME is missing\n"},
		{"lock two", []string{"lock", "a", "b", "--", "true"}, "too many arguments: only NAME may be given"},
		{"lock no name", []string{"lock", "a b", "--", "true"}, "the name is wrong"},
		{"sem without a limit", []string{"sem", "a", "--", "true"}, "--limit is missing"},
		{"two waits", []string{"lock", "a", "-n", "-w", "5", "--", "true"}, "--no-wait and --wait exclude"},
		{"two commands of lock", []string{"lock", "a", "-c", "true", "--", "true"}, "--command and a command after -- exclude"},
		{"two commands of run", []string{"run", pool, "-c", "true", "--", "true"}, "--command and a command after -- exclude"},
		{"the same lock twice", []string{"lock", "a", "--also", "a", "--", "true"}, "--also must be another name"},
		{"the same pool twice", []string{"run", pool, "--also", strings.ToUpper(pool), "--", "true"}, "--also must be another pool"},
		{"run a name", []string{"run", "nightly", "--", "true"}, "use kvslots lock NAME"},
		{"no wait", []string{"lock", "a", "-w", "soon", "--", "true"}, "or forever"},
		{"serve open to all", []string{"serve", "--nats-addr", ":0"}, "--nats-addr can be reached from other machines"},
		{"serve open to all, encrypted", []string{"serve", "--nats-addr", "0.0.0.0:0", "--nats-tls-cert", "c", "--nats-tls-key", "k"}, "or --insecure nats"},
		{"serve open to unknown ones", []string{"serve", "--insecure", "http,udp"}, "must be some of http, tcp, nats"},
		{"serve nkeys elsewhere", []string{"serve", "--nats-nkeys", "U", "--nats-url", "a"}, "excludes --nats-url"},
		{"serve nkeys for nothing", []string{"serve", "--nats-nkeys", "U"}, "needs --nats-addr"},
		{"serve token for nothing", []string{"serve", "--nats-token", "hunter2"}, "needs --nats-url or --nats-addr"},
		{"serve seed as a key", []string{"serve", "--nats-addr", "127.0.0.1:0", "--nats-nkeys", "SUhunter2"}, "public keys of users"},
		{"serve certificate alone", []string{"serve", "--nats-addr", "127.0.0.1:0", "--nats-tls-cert", "c"}, "go together"},
		{"serve two ways in", []string{"serve", "--nats-url", "a", "--nats-token", "hunter2", "--nats-nkey", "f"}, "exclude each other"},
		{"functions below kvslots", []string{"serve", "--forrst-fn-prefix", "kvslots.fn"}, "not begin with kvslots"},
		{"functions with a wildcard", []string{"serve", "--forrst-fn-prefix", "fn.>"}, "words of A-Z"},
		{"functions below _INBOX", []string{"serve", "--forrst-fn-prefix", "_INBOX"}, "words of A-Z"},
		{"no time for functions", []string{"serve", "--forrst-timeout", "0"}, "between 1s and 1h"},
		{"functions without a listener", []string{"serve", "--forrst-fn-nkeys", "hunter2"}, "needs --nats-addr"},
		{"functions elsewhere", []string{"serve", "--forrst-fn-nkeys", "hunter2", "--nats-url", "nats://127.0.0.1:1"}, "excludes --nats-url"},
		{"seed as a key of functions", []string{"serve", "--forrst-fn-nkeys", "hunter2", "--nats-addr", "127.0.0.1:0"}, "public keys of users"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, noEnv, c.args...)
			if code != exitUsage || stdout != evaluated(c.args[0], exitUsage) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, c.stderr)
			}
			if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, pool) {
				t.Errorf("repeats a secret: %s", stderr)
			}
		})
	}
}
