package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// keyPair are the files of --tls-cert and --tls-key.
type keyPair struct{ cert, key string }

const certificateKeyUsage = "file with the certificate's key"

func (k *keyPair) addFlags(flags *pflag.FlagSet, use string) {
	flags.StringVar(&k.cert, "tls-cert", k.cert, use)
	flags.StringVar(&k.key, "tls-key", k.key, certificateKeyUsage)
}

func (k *keyPair) validate() error {
	if (k.cert == "") != (k.key == "") {
		return usagef("--tls-cert and --tls-key go together")
	}
	return nil
}

// keyPairOf returns the certificate of a key pair, or its error with the flags.
func keyPairOf(pair tls.Certificate, err error) ([]tls.Certificate, error) {
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// parseAuthorities parses the content of a flag's file.
func parseAuthorities(flag string, pem []byte) (*x509.CertPool, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--%s: no certificate found", flag)
	}
	return authorities, nil
}

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
