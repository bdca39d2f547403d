package main

import (
	"crypto/tls"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// serverTLS are the files with which a command asks a gateway at an https URL.
type serverTLS struct {
	ca string
	keyPair
}

func (s *serverTLS) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.ca, "tls-ca", "", "file with the certificate authorities to trust for --server, instead of the system's")
	s.keyPair.addFlags(flags, "file with the certificate to show to --server")
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
		if config.RootCAs, err = parseAuthorities("tls-ca", authorities); err != nil {
			return nil, err
		}
	}
	if s.cert == "" {
		return config, nil
	}
	var err error
	config.Certificates, err = keyPairOf(tls.LoadX509KeyPair(s.cert, s.key))
	return config, err
}
