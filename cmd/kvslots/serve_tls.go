package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/spf13/pflag"
)

type tlsSettings struct {
	keyPair
	clientCA string
}

func (s *tlsSettings) addFlags(flags *pflag.FlagSet) {
	s.keyPair.addFlags(flags, "file with the certificate of the HTTP listener, which then accepts TLS only; read again when it changes")
	flags.StringVar(&s.clientCA, "tls-client-ca", s.clientCA, "file with certificate authorities, one of which must have issued each HTTP client's certificate")
}

func (s *tlsSettings) validate() error {
	if s.clientCA != "" && s.cert == "" && s.key == "" {
		return usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return s.keyPair.validate()
}

// certificates are those of the HTTP listener, as the files had them when they were last
// read. Handshakes use the current ones, and connections keep theirs.
type certificates struct {
	files   tlsSettings
	read    [][]byte // contents of the files
	current atomic.Pointer[tls.Config]
}

// load reads the files, and reports whether they have changed since the last load that
// succeeded. After an error the certificates are as before.
func (c *certificates) load() (changed bool, err error) {
	var read [][]byte
	for _, file := range []struct{ flag, name string }{
		{"tls-cert", c.files.cert}, {"tls-key", c.files.key}, {"tls-client-ca", c.files.clientCA},
	} {
		var content []byte
		if file.name != "" {
			if content, err = readRegular(file.name); err != nil {
				return false, fmt.Errorf("--%s: %w", file.flag, err)
			}
		}
		read = append(read, content)
	}
	if slices.EqualFunc(read, c.read, bytes.Equal) {
		return false, nil
	}
	loaded, err := newTLSConfig(read[0], read[1], read[2])
	if err != nil {
		return false, err
	}
	c.read = read
	c.current.Store(loaded)
	return true, nil
}

// newTLSConfig returns the configuration of a server. Without authorities it asks
// clients for no certificate.
func newTLSConfig(cert, key, authorities []byte) (*tls.Config, error) {
	pair, err := keyPairOf(tls.X509KeyPair(cert, key))
	if err != nil {
		return nil, err
	}
	// HTTP/2 would have many requests on one connection, and the limits count
	// connections.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: pair, NextProtos: []string{"http/1.1"}}
	if authorities != nil {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = parseAuthorities("tls-client-ca", authorities); err != nil {
			return nil, err
		}
		// A resumed session would not be checked against authorities that have replaced others.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}

// config returns a configuration that follows the files.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// openCertificates reads the files; it returns nil without any.
func openCertificates(files tlsSettings) (*certificates, error) {
	if files.cert == "" {
		return nil, nil
	}
	c := &certificates{files: files}
	err := withoutHanging(func() error {
		_, err := c.load()
		return err
	})
	if errors.Is(err, errHangs) {
		err = fmt.Errorf("--tls-cert, --tls-key, --tls-client-ca: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
