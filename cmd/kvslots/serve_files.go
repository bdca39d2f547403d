package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// checkFiles reads the files that the settings name, and returns an error for each that
// serve could not use. It opens no connection.
func (s *settings) checkFiles() error {
	var found problems
	_, err := openCertificates(s.tls)
	found.add(err)
	found.add(s.nats.checkFiles())
	found.add(s.nats.checkCertificates())
	if found.err() == nil {
		_, err = s.nats.options() // which reads the seed of --nats-nkey
		found.add(err)
	}
	return found.err()
}

// checkCertificates returns an error for each file of certificates that has no valid
// ones. checkFiles reports those that cannot be read.
func (c *natsConnection) checkCertificates() error {
	var found problems
	if c.tlsCert != "" && c.tlsKey != "" {
		if _, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey); err != nil && !isUnreadable(err) {
			found.add(fmt.Errorf("--nats-tls-cert, --nats-tls-key: %w", err))
		}
	}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err == nil {
			_, err = parseAuthorities("nats-tls-ca", pem)
			found.add(err)
		}
	}
	return found.err()
}

func isUnreadable(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
