package main

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway"
)

// controlsAccess reports whether HTTP clients must authenticate. TLS without client
// certificates encrypts, and accepts every client.
func (s *settings) controlsAccess() bool { return s.authToken.given() || s.tls.clientCA != "" }

func (s *settings) validateAccess() error {
	if err := s.tls.validate(); err != nil {
		return err
	}
	if !isLoopback(s.httpAddr) && !s.controlsAccess() && !s.httpInsecure {
		return usagef("--http-addr can be reached from other machines, and would accept every client: give --auth-token-file or --auth-token, " +
			"or --tls-client-ca to require client certificates; or --http-insecure")
	}
	return nil
}

// allowedHosts returns the names that the header Host may have, or nil for every name.
// On loopback every page in the browser of a user of this machine reaches the gateway.
func (s *settings) allowedHosts() []string {
	if s.httpHosts == "" && (s.controlsAccess() || !isLoopback(s.httpAddr)) {
		return nil
	}
	return append([]string{}, splitList(s.httpHosts)...)
}

// access decides which clients may use the HTTP listener. It follows the files of the
// tokens and certificates while serve runs.
type access struct {
	tokens *gateway.Tokens // nil without
	certs  *certificates   // nil without TLS
	files  []*reloadable
}

func openAccess(s settings) (*access, error) {
	certs, err := openCertificates(s.tls)
	if err != nil {
		return nil, err
	}
	a := &access{certs: certs}
	if certs != nil {
		a.files = append(a.files, newReloadable("tls-cert", certs.load))
	}
	if s.authToken.given() {
		a.tokens = gateway.NewTokens(s.authToken.all()...)
	}
	if s.authToken.isFile() {
		a.files = append(a.files, newReloadable(tokenFileFlag, s.authToken.reloadInto(a.tokens)))
	}
	return a, nil
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
