package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// checkFiles reads the files that the settings for NATS name, and returns an error for
// each that serve could not use. It opens no connection.
func (s *settings) checkFiles() error {
	if s.nats.url == "" {
		return s.nats.checkCertificates()
	}
	options, err := s.nats.options()
	if err != nil {
		return err
	}
	var found problems
	set := nats.GetDefaultOptions()
	for _, option := range options {
		if err := option(&set); err != nil {
			found.add(fmt.Errorf("--nats-url: %w", err))
		}
	}
	return found.err()
}

// checkCertificates reads the certificates of --nats-addr.
func (c *natsConnection) checkCertificates() error {
	var found problems
	if c.tlsCert != "" && c.tlsKey != "" {
		if _, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey); err != nil {
			found.add(fmt.Errorf("--nats-tls-cert, --nats-tls-key: %w", err))
		}
	}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s has no certificate", c.tlsCA)
		}
		if err != nil {
			found.add(fmt.Errorf("--nats-tls-ca: %w", err))
		}
	}
	return found.err()
}
