package server

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway"
)

// access decides which clients may use the HTTP listener. It follows the files of the
// tokens and certificates while serve runs.
type access struct {
	tokens *gateway.Tokens // nil without
	certs  *certificates   // nil without TLS
	files  []*reloadable
}

func openAccess(s *settings.Serve) (*access, error) {
	certs, err := openCertificates(s.TLS)
	if err != nil {
		return nil, err
	}
	a := &access{certs: certs}
	if certs != nil {
		a.files = append(a.files, newReloadable("tls-cert", certs.load))
	}
	if s.Token.Given() || s.Operators.Given() {
		a.tokens = gateway.NewTokens()
	}
	if s.Token.Given() {
		a.tokens.Replace(s.Token.All()...)
		a.follow(settings.TokenFileFlag, s.Token, a.tokens.Replace)
	}
	if s.Operators.Given() {
		operators := s.Operators
		a.replaceOperators(operators.All())
		a.files = append(a.files, newReloadable(settings.TokensFileFlag, func() (bool, error) {
			changed, err := operators.Reload()
			if changed {
				a.replaceOperators(operators.All())
			}
			return changed, err
		}))
	}
	if s.ReadToken.Given() {
		a.tokens.ReplaceReaders(s.ReadToken.All()...)
		a.follow(settings.ReadTokenFileFlag, s.ReadToken, a.tokens.ReplaceReaders)
	}
	return a, nil
}

func (a *access) replaceOperators(all []settings.Operator) {
	var tokens []gateway.NamedToken
	for _, o := range all {
		tokens = append(tokens, gateway.NamedToken(o))
	}
	a.tokens.ReplaceNamed(tokens...)
}

// follow replaces tokens when the content of their file changes.
func (a *access) follow(flag string, token settings.Token, replace func(...string)) {
	if !token.IsFile() {
		return
	}
	a.files = append(a.files, newReloadable(flag, func() (bool, error) {
		changed, err := token.Reload()
		if changed {
			replace(token.All()...)
		}
		return changed, err
	}))
}

// tls returns nil without TLS.
func (a *access) tls() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.config()
}

// fileAge returns the metric of the age of what is in force.
func (a *access) fileAge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kvslots_file_age_seconds",
		Help: "Longest time since the files of a token or certificate were last read, and had the content that is in force; 0 without files.",
	}, func() (age float64) {
		for _, file := range a.files {
			age = max(age, file.age())
		}
		return age
	})
}
