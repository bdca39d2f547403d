package settings

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
)

// loadAccess reads the files of tokens and certificates, which are followed from then on.
func (s *Serve) loadAccess(flags *pflag.FlagSet, stdin io.Reader) error {
	var found problems
	if s.token.Given() {
		s.Tokens = gateway.NewTokens()
	}
	if path := s.token.path; path != "" && path != "-" {
		found.add(s.follow(TokenFileFlag, []fileOf{{TokenFileFlag, path}}, func(read Contents) error {
			all, err := parseTokens(string(read[TokenFileFlag]))
			if err == nil {
				s.Tokens.Replace(all...)
			}
			return err
		}))
	} else {
		all, err := s.token.load(flags, stdin)
		if found.add(err); all != nil && err == nil {
			s.Tokens.Replace(all...)
		}
	}
	if s.tls.cert != "" {
		found.add(s.follow("tls-cert", append(s.tls.files(), fileOf{"tls-client-ca", s.clientCA}), s.useCertificates))
	}
	return found.err()
}
