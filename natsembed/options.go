package natsembed

import (
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

const (
	serverName = "kvslots"

	// bucketAccount owns the JetStream storage; its name is a directory in
	// the data directory, so it must not change.
	bucketAccount = "KVSLOTS"

	// clientAccount is where those who come in by the listener find
	// themselves: no JetStream, and no way to the other account.
	clientAccount = "CLIENTS"
)

// options builds nats-server's. The accounts go through its configuration
// language, which alone can enable JetStream for an account before recovery.
func (c Config) options(dir string, insider, client nkeys.KeyPair) (*server.Options, error) {
	host, port, err := c.listen()
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: serverName,
		DontListen: c.Addr == "",
		Host:       host,
		Port:       port,

		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: c.Sync != SyncInterval,

		NoSigs:                 true,
		DisableJetStreamBanner: true,
	}
	if c.Sync == SyncInterval {
		options.SyncInterval = time.Second
	}
	accounts, err := accountsConfig(insider, client)
	if err != nil {
		return nil, err
	}
	return options, options.ProcessConfigString(accounts)
}

func accountsConfig(insider, client nkeys.KeyPair) (string, error) {
	insiderKey, err := insider.PublicKey()
	if err != nil {
		return "", err
	}
	clientKey, err := client.PublicKey()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`
		accounts {
			%s { jetstream: enabled, users: [{nkey: %s}] }
			%s { users: [{nkey: %s}] }
		}
		no_auth_user: %s
	`, bucketAccount, insiderKey, clientAccount, clientKey, clientKey), nil
}
