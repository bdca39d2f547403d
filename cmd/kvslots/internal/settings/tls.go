package settings

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"

	"github.com/spf13/pflag"
)

type keyPair struct{ cert, key string }

const certificateKeyUsage = "file with the certificate's key"

func (k *keyPair) addFlags(flags *pflag.FlagSet, use string) {
	flags.StringVar(&k.cert, "tls-cert", "", use)
	flags.StringVar(&k.key, "tls-key", "", certificateKeyUsage)
}

func (k *keyPair) check() error {
	if (k.cert == "") != (k.key == "") {
		return Usagef("--tls-cert and --tls-key go together")
	}
	return nil
}

func (k *keyPair) files() []fileOf { return []fileOf{{"tls-cert", k.cert}, {"tls-key", k.key}} }

// ClientTLS has the files with which a command asks a gateway at an https URL.
type ClientTLS struct {
	ca string
	keyPair
}

func (c *ClientTLS) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.ca, "tls-ca", "", "file with the certificate authorities to trust for --server, instead of the system's")
	c.keyPair.addFlags(flags, "file with the certificate to show to --server")
}

// Config reads the files; it returns nil without any.
func (c *ClientTLS) Config() (*tls.Config, error) {
	if *c == (ClientTLS{}) {
		return nil, nil
	}
	read, err := readFiles(readFile, append(c.files(), fileOf{"tls-ca", c.ca})...)
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

// ServerTLS has the files of the HTTP listener.
type ServerTLS struct {
	keyPair
	clientCA string
	loaded   map[string][]byte // contents of the files, by their flags
}

func (s *ServerTLS) addFlags(flags *pflag.FlagSet) {
	s.keyPair.addFlags(flags, "file with the certificate of the HTTP listener and of --tcp-addr, which then accept TLS only; read again when it changes")
	flags.StringVar(&s.clientCA, "tls-client-ca", "", "file with certificate authorities, one of which must have issued the certificate of each client over HTTP and at --tcp-addr")
}

func (s *ServerTLS) check() error {
	if s.clientCA != "" && s.cert == "" && s.key == "" {
		return Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return s.keyPair.check()
}

// Load reads the files, and returns the configuration of a server. It returns nil if they are
// as at the last Load that succeeded, and without files. Without authorities the server asks
// clients for no certificate. Only the first Load has a time limit.
func (s *ServerTLS) Load() (*tls.Config, error) {
	if s.cert == "" {
		return nil, nil
	}
	read := readRegular
	if s.loaded == nil {
		read = readFile
	}
	contents, err := readFiles(read, append(s.files(), fileOf{"tls-client-ca", s.clientCA})...)
	if err != nil || maps.EqualFunc(contents, s.loaded, bytes.Equal) {
		return nil, err
	}
	pair, err := parseKeyPair(contents, "tls-cert", "tls-key")
	if err != nil {
		return nil, err
	}
	// HTTP/2 would have many requests on one connection, and the limits count
	// connections.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: pair, NextProtos: []string{"http/1.1"}}
	if s.clientCA != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = parseAuthorities(contents, "tls-client-ca"); err != nil {
			return nil, err
		}
		// A resumed session would not be checked against authorities that have replaced others.
		config.SessionTicketsDisabled = true
	}
	s.loaded = contents
	return config, nil
}

func parseKeyPair(read map[string][]byte, cert, key string) ([]tls.Certificate, error) {
	if read[cert] == nil || read[key] == nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(read[cert], read[key])
	if err != nil {
		return nil, fmt.Errorf("--%s, --%s: %w", cert, key, err)
	}
	return []tls.Certificate{pair}, nil
}

func parseAuthorities(read map[string][]byte, flag string) (*x509.CertPool, error) {
	if read[flag] == nil {
		return nil, nil
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(read[flag]) {
		return nil, fmt.Errorf("--%s: no certificate found", flag)
	}
	return authorities, nil
}
