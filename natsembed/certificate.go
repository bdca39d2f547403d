package natsembed

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groupName is the name in the certificates of all nodes of all clusters: so hosts and addresses do not matter.
const groupName = "kvslots-cluster"

const (
	authorityInfo = "kvslots cluster authority 1" // of HKDF, as is idInfo
	idInfo        = "kvslots cluster id 1"

	leafTime = 10 * 365 * 24 * time.Hour // of a node's certificate, which each start makes anew
	clockOff = 48 * time.Hour            // how far a node's clock may be ahead of another's
)

// id identifies the cluster. It says nothing about the secret.
func (c *Cluster) id() string {
	if c.CA != "" {
		return "certificates"
	}
	return hex.EncodeToString(derive(c.Secret, idInfo, 8))
}

func derive(secret []byte, info string, n int) []byte {
	key, _ := hkdf.Key(sha256.New, secret, nil, info, n) // it fails only for thousands of bytes
	return key
}

// authority returns the certificate authority of a secret: the same at each node.
func authority(secret []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	key := ed25519.NewKeyFromSeed(derive(secret, authorityInfo, ed25519.SeedSize))
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: groupName},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// claims are what a node says of itself in its certificate, so that it is compared before the node joins.
type claims struct {
	name   string
	run    string   // of its data directory
	nodes  []string // the list
	format int
}

func (c *Cluster) claims(run string) claims { return claims{c.Self, run, c.list(), c.Format} }

func (c claims) subject() pkix.Name {
	return pkix.Name{CommonName: c.name, SerialNumber: c.run, OrganizationalUnit: c.nodes, Organization: []string{strconv.Itoa(c.format)}}
}

func claimsOf(certificate *x509.Certificate) (c claims) {
	s := certificate.Subject
	c.name, c.run, c.nodes = s.CommonName, s.SerialNumber, slices.Sorted(slices.Values(s.OrganizationalUnit)) // a set there
	if len(s.Organization) == 1 {
		c.format, _ = strconv.Atoi(s.Organization[0])
	}
	return c
}

// check returns an error, with both values, unless another node agrees with this one.
func (c claims) check(other claims) error {
	ours, theirs := strings.Join(c.nodes, ","), strings.Join(other.nodes, ",")
	switch {
	case ours != theirs:
		return fmt.Errorf("node %s has the nodes %s, and this one has %s: give all the same list", other.name, theirs, ours)
	case c.format != other.format:
		return fmt.Errorf("node %s has the format %d, and this one has %d: give all the same version", other.name, other.format, c.format)
	case c.name == other.name && c.run != other.run:
		return fmt.Errorf("another machine runs as node %s, which is this one: give each its own --cluster-self", c.name)
	}
	return nil
}

// leaf makes the certificate of a node.
func leaf(secret []byte, c claims) (tls.Certificate, *x509.CertPool, error) {
	ca, caKey, err := authority(secret)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: c.subject(), DNSNames: []string{groupName},
		NotBefore: time.Now().Add(-clockOff), NotAfter: time.Now().Add(leafTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, public, caKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, nil
}

// certificates returns what this node shows to the others, whom it trusts, and the name that theirs have; "" is that of their host.
func (c *Cluster) certificates(run string) (own tls.Certificate, trusted *x509.CertPool, name string, err error) {
	if c.CA == "" {
		own, trusted, err = leaf(c.Secret, c.claims(run))
		return own, trusted, groupName, err
	}
	for _, path := range []string{c.Cert, c.Key, c.CA} {
		if err := checkRegular(path); err != nil {
			return own, nil, "", err
		}
	}
	if own, err = tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		return own, nil, "", err
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return own, nil, "", err
	}
	if trusted = x509.NewCertPool(); !trusted.AppendCertsFromPEM(pem) {
		return own, nil, "", errors.New("the file of the cluster's authorities has no certificate")
	}
	return own, trusted, "", nil
}
