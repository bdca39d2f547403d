package settings

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
)

// loadAccess reads the files of tokens and certificates, which are followed from then on.
func (s *Serve) loadAccess(flags *pflag.FlagSet, stdin io.Reader) error {
	var found problems
	if s.token.Given() || s.readToken.Given() || s.tokensFile != "" {
		s.Tokens = gateway.NewTokens()
	}
	for _, t := range []*Token{&s.token, &s.readToken} {
		if flags.Changed(t.fileFlag()) && t.path != "-" && t.path != "" {
			found.add(s.followTokens(t.fileFlag(), t.path, t.parse))
			continue
		}
		all, err := t.load(flags, stdin)
		if found.add(err); all != nil && err == nil {
			s.Tokens.Replace(t.flag, all...)
		}
	}
	if s.tokensFile != "" {
		found.add(s.followTokens(tokensFileFlag, s.tokensFile, parseOperators))
	}
	if s.tls.cert != "" {
		found.add(s.follow("tls-cert", append(s.tls.files(), fileOf{"tls-client-ca", s.clientCA}), s.useCertificates))
	}
	return found.err()
}

func (s *Serve) followTokens(flag, path string, parse func(flag, content string) ([]gateway.Token, error)) error {
	return s.follow(flag, []fileOf{{flag, path}}, func(read Contents) error {
		all, err := parse(flag, string(read[flag]))
		if err == nil {
			s.Tokens.Replace(flag, all...)
		}
		return err
	})
}
