package natsembed

import (
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	serverName = "kvslots"

	// bucketAccount owns the JetStream storage; its name is a directory in
	// the data directory, so it must not change.
	bucketAccount = "KVSLOTS"

	// clientAccount is the account of the listener's clients: no JetStream, and no
	// way to the other accounts.
	clientAccount = "CLIENTS"

	// probeAccount owns the stream of probe. nats-server removes the directory of an
	// account whose last stream was deleted, and does so late: in the bucket's
	// account it could meet the bucket's creation.
	probeAccount = "PROBE"
)

// maxSubscriptions bounds what one client can make the server remember. A
// client needs one for all its requests, or one for each that is open.
const maxSubscriptions = 1024

// options builds nats-server's. The accounts go through its configuration
// language, which alone can enable JetStream for an account before recovery.
func (c Config) options(dir string, door *door) (*server.Options, error) {
	host, port, err := c.listen()
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: serverName,
		DontListen: c.Addr == "",
		Host:       host,
		Port:       port,
		MaxSubs:    maxSubscriptions,

		CustomClientAuthentication: door,
		AlwaysEnableNonce:          true, // nkeys are checked by door, unknown to the server

		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: c.Sync == SyncAlways,

		NoSigs:                 true,
		DisableJetStreamBanner: true,
	}
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

const accountsConfig = `
	accounts {
		` + bucketAccount + ` { jetstream: enabled }
		` + clientAccount + ` { }
		` + probeAccount + ` { jetstream: enabled }
	}
`
