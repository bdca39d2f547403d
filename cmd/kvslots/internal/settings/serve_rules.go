package settings

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/natsembed"
)

func (s *Serve) check(flags *pflag.FlagSet, stdin io.Reader) error {
	var found problems
	found.when(s.httpRateBurst != 0 && s.httpRateLimit == 0, "--http-rate-burst needs --http-rate-limit")
	found.add(s.checkAccess())
	found.add(s.checkTCP(flags))
	if s.NATS.URL == "" {
		found.add(s.checkEmbedded(flags))
	} else {
		found.add(s.checkExternal(flags))
	}
	found.when(s.ReadToken.Given() && !s.Token.Given() && !s.Operators.Given(), "--read-token needs --auth-token or --auth-token-file: without one every client may change everything")
	found.when(s.Token.path == "-" && s.ReadToken.path == "-", "--auth-token-file and --read-token-file cannot both be standard input")
	found.add(s.Token.loadFirst(flags, stdin))
	found.add(s.ReadToken.loadFirst(flags, stdin))
	if s.Operators.Given() {
		_, err := s.Operators.load(readFile)
		found.add(err)
	}
	if flags.Changed(replicasFlag) {
		s.Replicas = s.store.Replicas
	}
	return found.err()
}

func (s *Serve) checkAccess() error {
	if err := s.TLS.check(); err != nil {
		return err
	}
	if !IsLoopback(s.HTTPAddr) && !s.controlsAccess() && !s.httpInsecure {
		return Usagef("--http-addr can be reached from other machines, and would accept every client: give --auth-token-file or --auth-token, " +
			"or --tls-client-ca to require client certificates; or --http-insecure")
	}
	return nil
}

func (s *Serve) checkTCP(flags *pflag.FlagSet) error {
	var found problems
	if s.TCPAddr == "" {
		found.each(given(flags, "tcp-insecure"), "needs --tcp-addr")
	} else if !IsLoopback(s.TCPAddr) && !s.controlsAccess() && !s.tcpInsecure {
		return Usagef("--tcp-addr can be reached from other machines, and would accept every client: give --auth-token-file or --auth-token, " +
			"or --tls-client-ca to require client certificates; or --tcp-insecure")
	}
	return found.err()
}

// controlsAccess reports whether clients over HTTP and TCP must authenticate. TLS without client
// certificates encrypts, and accepts every client.
func (s *Serve) controlsAccess() bool {
	return s.Token.Given() || s.Operators.Given() || s.TLS.clientCA != ""
}

const replicasFlag = "replicas"

var embeddedOnly = []string{
	dataDirFlag, "max-store", "sync", "nats-addr", "nats-nkeys", "nats-insecure", "nats-max-connections", "nats-max-connections-per-ip",
	"forrst-fn-user", "forrst-fn-password", "forrst-fn-nkeys",
}

func (s *Serve) checkExternal(flags *pflag.FlagSet) error {
	var found problems
	for _, name := range given(flags, embeddedOnly...) {
		// The image and the unit of systemd set the variable of --data-dir for every gateway.
		found.when(name != "--"+dataDirFlag || sourceOf(flags.Lookup(dataDirFlag)) != fromEnvironment,
			"%s is for the embedded server: it excludes --nats-url", name)
	}
	for _, reply := range splitList(s.replyPrefixes) {
		calls := s.functions.prefix + "."
		found.when(strings.HasPrefix(reply+".", calls) || strings.HasPrefix(calls, reply+"."),
			"--nats-reply-prefixes must not overlap with --forrst-fn-prefix: an answer there would call a function")
	}
	found.add(s.NATS.check(flags, nil))
	return found.err()
}

func (s *Serve) checkEmbedded(flags *pflag.FlagSet) error {
	var found problems
	found.when(s.DataDir == "", "--data-dir must not be empty")
	found.each(given(flags, "nats-creds", "nats-nkey"), "needs --nats-url")
	found.each(given(flags, publishEventsFlag), "needs --nats-url: at --nats-addr clients may subscribe below _INBOX only")
	found.each(given(flags, "nats-reply-prefixes"), "needs --nats-url: at --nats-addr clients may subscribe below _INBOX only")
	if s.NATSAddr == "" {
		found.each(given(flags, "nats-user", "nats-password", "nats-token", "nats-tls-cert", "nats-tls-key", "nats-tls-ca"), "needs --nats-url or --nats-addr")
		found.each(given(flags, "nats-nkeys", "nats-insecure", "forrst-fn-user", "forrst-fn-password", "forrst-fn-nkeys"), "needs --nats-addr")
	}
	found.when(s.store.Replicas != 1, "--replicas %d needs --nats-url: there is one embedded server", s.store.Replicas)
	found.add(s.NATS.checkPairs())
	if found.err() == nil { // the rules of natsembed repeat some of these
		found.add(s.checkListener())
	}
	return found.err()
}

func (s *Serve) checkListener() error {
	switch err := s.Embedded().Validate(); {
	case errors.Is(err, natsembed.ErrOpenListener):
		return Usagef("--nats-addr can be reached from other machines, and would accept every client: give --nats-user and " +
			"--nats-password, --nats-token, --nats-nkeys, or --nats-tls-ca to require client certificates; or --nats-insecure")
	case err != nil:
		return UsageError{err}
	}
	return nil
}
