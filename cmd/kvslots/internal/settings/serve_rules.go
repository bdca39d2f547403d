package settings

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/natsembed"
)

// check checks the rules that no row of the table has.
func (s *Serve) check(flags *pflag.FlagSet, stdin io.Reader) error {
	var found problems
	found.add(checkRows(flags, s.NATS.URL != ""))
	found.add(checkPair(flags, "tls-cert", "tls-key"))
	found.add(s.checkOpen("http", s.HTTPAddr))
	found.add(s.checkOpen("tcp", s.TCPAddr))
	if s.NATS.URL == "" {
		found.add(s.checkEmbedded(flags))
	} else {
		found.add(s.checkExternal(flags))
	}
	found.add(s.loadAccess(flags, stdin))
	found.add(s.NATS.CheckFiles())
	if flags.Changed(replicasFlag) {
		s.Replicas = s.store.Replicas
	}
	return found.err()
}

// checkOpen returns an error if clients on other machines can use an address without authentication,
// unless an operator has allowed that. addr may be empty.
func (s *Serve) checkOpen(listener, addr string) error {
	if addr == "" || IsLoopback(addr) || s.isInsecure(listener) || s.controlsAccess() {
		return nil
	}
	return Usagef("--%s-addr can be reached from other machines, and would accept every client: give --auth-token-file or --auth-token, "+
		"or --tls-client-ca to require client certificates; or --insecure %s", listener, listener)
}

func (s *Serve) isInsecure(listener string) bool { return slices.Contains(s.insecure, listener) }

func checkListener(text string) error {
	if text != "http" && text != "tcp" && text != "nats" {
		return errors.New("must be some of http, tcp, nats, separated by commas")
	}
	return nil
}

// controlsAccess reports whether clients over HTTP and TCP must authenticate. TLS without client
// certificates encrypts, and accepts every client.
func (s *Serve) controlsAccess() bool {
	return s.token.Given() || s.clientCA != ""
}

func (s *Serve) checkExternal(flags *pflag.FlagSet) error {
	var found problems
	for _, reply := range s.service.ReplyPrefixes {
		calls := s.forrst.Prefix + "."
		found.when(strings.HasPrefix(reply+".", calls) || strings.HasPrefix(calls, reply+"."),
			"--nats-reply-prefixes must not overlap with --forrst-fn-prefix: an answer there would call a function")
	}
	found.add(s.NATS.check(flags, nil))
	return found.err()
}

func (s *Serve) checkEmbedded(flags *pflag.FlagSet) error {
	var found problems
	found.when(s.embedded.DataDir == "", "--data-dir must not be empty")
	found.when(s.store.Replicas != 1, "--replicas %d needs --nats-url: there is one embedded server", s.store.Replicas)
	found.add(s.Cluster.check(flags, s.embedded.Sync))
	found.add(s.NATS.checkPairs(flags))
	if found.err() != nil || s.embedded.Addr == "" { // the rules of natsembed repeat those of rows
		return found.err()
	}
	switch err := s.Embedded().Validate(); {
	case errors.Is(err, natsembed.ErrOpenListener):
		return Usagef("--nats-addr can be reached from other machines, and would accept every client: give --nats-user and " +
			"--nats-password, --nats-token, --nats-nkeys, or --nats-tls-ca to require client certificates; or --insecure nats")
	case err != nil:
		return UsageError{err}
	}
	return nil
}
