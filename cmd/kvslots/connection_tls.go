package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// serverTLS are the files with which a command asks a gateway at an https URL.
type serverTLS struct{ ca, cert, key string }

func (s *serverTLS) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.ca, "tls-ca", "", "file with the certificate authorities to trust for --server, instead of the system's")
	flags.StringVar(&s.cert, "tls-cert", "", "file with the certificate to show to --server")
	flags.StringVar(&s.key, "tls-key", "", "file with the certificate's key")
}

func (s *serverTLS) validate() error {
	if (s.cert == "") != (s.key == "") {
		return usagef("--tls-cert and --tls-key go together")
	}
	return nil
}

// config returns nil without files.
func (s *serverTLS) config() (*tls.Config, error) {
	if *s == (serverTLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		authorities, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("--tls-ca: no certificate found")
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
