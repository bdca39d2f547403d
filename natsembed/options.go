package natsembed

import (
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	serverName = "kvslots"

	// bucketAccount owns the JetStream storage; its name is a directory in
	// the data directory, so it must not change.
	bucketAccount = "KVSLOTS"

	// clientAccount is the account of the listener's clients. It has no JetStream,
	// and neither imports nor exports.
	clientAccount = "CLIENTS"

	// fullAccount accepts no connection. A client that is one too many is assigned to
	// it, so that the server tells the client the reason.
	fullAccount = "FULL"
)

// unlimited is the limit of the storage in nats-server's options, in bytes. Without one
// nats-server limits itself to three quarters of the disk, and refuses every write above
// that, including those that end leases. Server.Room has the limit that counts.
const unlimited = 1 << 60

// options returns nats-server's options. The accounts are given in its configuration
// language: only so can JetStream be enabled for an account before recovery.
func (c Config) options(dir string, auth *authenticator) (*server.Options, error) {
	host, port, err := c.listen()
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: serverName,
		DontListen: c.Addr == "",
		Host:       host,
		Port:       port,

		CustomClientAuthentication: auth,
		AlwaysEnableNonce:          true, // auth checks nkeys; the server's options have none

		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: c.Sync == SyncAlways || c.Cluster != nil,

		JetStreamMaxStore: unlimited,

		NoSigs:                 true,
		DisableJetStreamBanner: true,
	}
	c.limits().Apply(options)
	if c.Sync == SyncInterval {
		options.SyncInterval = time.Second
	}
	if c.TLSCert != "" {
		if err := c.addTLS(options); err != nil {
			return nil, err
		}
	}
	return options, options.ProcessConfigString(accountsConfig)
}

func (c Config) addTLS(options *server.Options) error {
	for _, path := range []string{c.TLSCert, c.TLSKey, c.TLSCA} {
		if err := checkRegular(path); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
	}
	config, err := server.GenTLSConfig(&server.TLSConfigOpts{
		CertFile: c.TLSCert,
		KeyFile:  c.TLSKey,
		CaFile:   c.TLSCA,
		Verify:   c.TLSCA != "",
	})
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	options.TLSConfig = config
	options.TLS = true
	options.TLSVerify = c.TLSCA != ""
	options.TLSTimeout = 5 // seconds
	return nil
}

// checkRegular returns an error if a path is given that is not one of a regular file:
// opening a pipe would block until another process writes to it.
func checkRegular(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", path)
	}
	return err
}

const accountsConfig = `
	accounts {
		` + bucketAccount + ` { jetstream: enabled }
		` + clientAccount + ` { }
		` + fullAccount + ` { limits { max_connections: 0 } }
	}
`
