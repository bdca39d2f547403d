package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// checkFiles reads the files that the settings for NATS name, and returns an error for
// each that serve could not use. It opens no connection.
func (s *settings) checkFiles() error {
	if err := s.nats.checkFiles(); err != nil {
		return err
	}
	if err := s.nats.checkCertificates(); err != nil {
		return err
	}
	_, err := s.nats.options()
	return err
}

// checkCertificates parses the files of --nats-tls-….
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
			err = errors.New("the file has no certificate")
		}
		if err != nil {
			found.add(fmt.Errorf("--nats-tls-ca: %w", withoutPath(err)))
		}
	}
	return found.err()
}
