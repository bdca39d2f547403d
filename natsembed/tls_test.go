package natsembed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// issuer issues certificates into a directory.
type issuer struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	ca := &issuer{dir: t.TempDir()}
	ca.issue(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return ca
}

func (ca *issuer) file(name string) string { return filepath.Join(ca.dir, name) }

// issue writes name.pem and name.key; the first one is the authority's own.
func (ca *issuer) issue(t *testing.T, name string, template *x509.Certificate) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kvslotstest.Must(t, err)
	ca.serial++
	template.SerialNumber = big.NewInt(ca.serial)
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if ca.cert == nil {
		ca.cert, ca.key = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &private.PublicKey, ca.key)
	kvslotstest.Must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	kvslotstest.Must(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		kvslotstest.Must(t, os.WriteFile(ca.file(file), pem.EncodeToMemory(block), 0o600))
	}
	return ca.file(name + ".pem"), ca.file(name + ".key")
}

func TestTLS(t *testing.T) {
	ca := newIssuer(t)
	cert, key := ca.issue(t, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	ours, oursKey := ca.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	trust := nats.RootCAs(ca.file("ca.pem"))

	t.Run("server only", func(t *testing.T) {
		srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", TLSCert: cert, TLSKey: key, Token: "t"})
		defer serve(t, srv).Close()
		put(t, srv, "the bucket's own connection needs no TLS")
		nc, _ := client(t, srv, trust, nats.Token("t"))
		if _, err := nc.TLSConnectionState(); err != nil {
			t.Errorf("no TLS: %v", err)
		}
		if _, err := nc.RequestWithContext(t.Context(), "kvslots.borrow", nil); err != nil {
			t.Error(err)
		}
		if nc, err := nats.Connect(srv.ClientURL(), trust); err == nil {
			nc.Close()
			t.Error("a client without the token is accepted")
		}
		if nc, err := nats.Connect(srv.ClientURL(), nats.Token("t")); err == nil {
			nc.Close()
			t.Error("the client trusts an unknown authority")
		}
	})
	t.Run("client certificates", func(t *testing.T) {
		srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", TLSCert: cert, TLSKey: key, TLSCA: ca.file("ca.pem")})
		defer serve(t, srv).Close()
		nc, _ := client(t, srv, trust, nats.ClientCert(ours, oursKey))
		if _, err := nc.RequestWithContext(t.Context(), "kvslots.borrow", nil); err != nil {
			t.Error(err)
		}
		if nc, err := nats.Connect(srv.ClientURL(), trust); err == nil {
			nc.Close()
			t.Error("a client without a certificate is accepted")
		}
		put(t, srv, "the bucket's own connection needs no certificate")
	})
	t.Run("no such file", func(t *testing.T) {
		srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: t.TempDir(), Addr: "127.0.0.1:0", TLSCert: "/nonexistent", TLSKey: key})
		if err == nil {
			srv.Close()
			t.Error("no error")
		}
	})
	t.Run("no regular file", func(t *testing.T) {
		dir := t.TempDir()
		for _, c := range []Config{{TLSCert: dir, TLSKey: key}, {TLSCert: cert, TLSKey: dir}, {TLSCert: cert, TLSKey: key, TLSCA: dir}} {
			c.Logger, c.DataDir, c.Addr = logtest.Logger(), t.TempDir(), "127.0.0.1:0"
			srv, err := Start(t.Context(), c)
			if err == nil {
				srv.Close()
			}
			if err == nil || !strings.Contains(err.Error(), dir+": not a regular file") {
				t.Errorf("%q, %q, %q: %v", c.TLSCert, c.TLSKey, c.TLSCA, err)
			}
		}
	})
}
