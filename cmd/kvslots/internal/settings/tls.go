package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

type keyPair struct{ cert, key string }

const certificateKeyUsage = "file with the certificate's key"

func (k *keyPair) addFlags(flags table, use string) {
	flags.row("tls-cert", plain(&k.cert, ""), use)
	flags.row("tls-key", plain(&k.key, ""), certificateKeyUsage, secretFile)
}

func (k *keyPair) files() []fileOf { return []fileOf{{"tls-cert", k.cert}, {"tls-key", k.key}} }

// ClientTLS has the files with which a command asks a gateway at an https URL.
type ClientTLS struct {
	ca string
	keyPair
}

func (c *ClientTLS) addFlags(flags table) {
	flags.row("tls-ca", plain(&c.ca, ""), "file with the certificate authorities to trust for --server, instead of the system's")
	c.keyPair.addFlags(flags, "file with the certificate to show to --server")
}

// Config reads the files; it returns nil without any.
func (c *ClientTLS) Config() (*tls.Config, error) {
	if *c == (ClientTLS{}) {
		return nil, nil
	}
	read, err := readFiles(append(c.files(), fileOf{"tls-ca", c.ca})...)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.RootCAs, err = parseAuthorities(read, "tls-ca"); err != nil {
		return nil, err
	}
	config.Certificates, err = parseKeyPair(read, "tls-cert", "tls-key")
	return config, err
}

// TLS returns the configuration of the HTTP listener and of --tcp-addr, or nil without
// certificates. Handshakes use the current files, and connections keep theirs.
func (s *Serve) TLS() *tls.Config {
	if s.certificates.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.certificates.Load(), nil },
	}
}

// Certificate returns the certificate that TLS shows, or nil.
func (s *Serve) Certificate() *x509.Certificate {
	if current := s.certificates.Load(); current != nil {
		return current.Certificates[0].Leaf
	}
	return nil
}

// useCertificates puts the contents of the files in force. Without authorities the server asks
// clients for no certificate.
func (s *Serve) useCertificates(contents Contents) error {
	pair, err := parseKeyPair(contents, "tls-cert", "tls-key")
	if err != nil {
		return err
	}
	// HTTP/2 would have many requests on one connection, and the limits count
	// connections.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: pair, NextProtos: []string{"http/1.1"}}
	if s.clientCA != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = parseAuthorities(contents, "tls-client-ca"); err != nil {
			return err
		}
		// A resumed session would not be checked against authorities that have replaced others.
		config.SessionTicketsDisabled = true
	}
	s.certificates.Store(config)
	return nil
}

func parseKeyPair(read Contents, cert, key string) ([]tls.Certificate, error) {
	if read[cert] == nil || read[key] == nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(read[cert], read[key])
	if err != nil {
		return nil, fmt.Errorf("--%s, --%s: %w", cert, key, err)
	}
	return []tls.Certificate{pair}, nil
}

func parseAuthorities(read Contents, flag string) (*x509.CertPool, error) {
	if read[flag] == nil {
		return nil, nil
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(read[flag]) {
		return nil, fmt.Errorf("--%s: no certificate found", flag)
	}
	return authorities, nil
}
