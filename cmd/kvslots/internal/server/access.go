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
	a.follow(settings.TokenFileFlag, &s.Token)
	a.follow(settings.ReadTokenFileFlag, &s.ReadToken)
	a.follow(settings.TokensFileFlag, &s.Operators)
	return a, nil
}

// tokenSource is a setting that may give tokens, and may name a file with them.
type tokenSource interface {
	Given() bool
	All() []gateway.Token
	IsFile() bool
	Reload() (changed bool, err error)
}

// follow takes over the tokens of a flag, and those that replace them when its file changes.
func (a *access) follow(flag string, of tokenSource) {
	if !of.Given() {
		return
	}
	if a.tokens == nil {
		a.tokens = gateway.NewTokens()
	}
	a.tokens.Replace(flag, of.All()...)
	if !of.IsFile() {
		return
	}
	a.files = append(a.files, newReloadable(flag, func() (bool, error) {
		changed, err := of.Reload()
		if changed {
			a.tokens.Replace(flag, of.All()...)
		}
		return changed, err
	}))
}

func (a *access) tls() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.config()
}

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
