package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// connection holds the flags that choose a gateway, and how to reach it.
type connection struct {
	server string
	token  authToken // for server
	tls    serverTLS
	nats   natsConnection
}

// natsConnection holds the flags for a connection to NATS.
type natsConnection struct {
	url      string // may contain a password: never printed
	creds    string
	user     string
	password string
	token    string
	nkey     string
	inbox    string // prefix of reply subjects; "" means the default of NATS clients
	tlsCert  string
	tlsKey   string
	tlsCA    string
}

const (
	defaultServer  = "http://127.0.0.1:8080"
	natsDialing    = 5 * time.Second
	serverFlag     = "server"
	natsURLFlag    = "nats-url"
	clientNATSName = "kvslots command"

	// requestTimeout bounds a request, in addition to the wait that it asks for.
	requestTimeout = 10 * time.Second
)

func (c *connection) addServerFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.server, serverFlag, defaultServer, "call this gateway, over HTTP")
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	c.addServerFlag(flags)
	c.token.addFlags(flags, "bearer token for --server")
	c.tls.addFlags(flags)
	c.nats.addFlags(flags, "", "call gateways over this NATS instead (comma-separated URLs)", false)
	flags.StringVar(&c.nats.inbox, "nats-inbox", "", "prefix of the subjects for answers; with --nats-nkey the default is _INBOX_<public key>")
}

// addFlags declares the flags. Some of those of serve also apply to the listener of the
// embedded server.
func (c *natsConnection) addFlags(flags *pflag.FlagSet, url, usage string, listener bool) {
	clients, authorities := "", ""
	if listener {
		clients = ", or of NATS clients at --nats-addr"
		authorities = ", or those that must have issued the certificates of clients at --nats-addr"
	}
	flags.StringVar(&c.url, natsURLFlag, url, usage)
	flags.StringVar(&c.creds, "nats-creds", "", "credentials file for --nats-url")
	flags.StringVar(&c.nkey, "nats-nkey", "", "file with an nkey seed for --nats-url")
	flags.StringVar(&c.user, "nats-user", "", "user for --nats-url"+clients)
	flags.StringVar(&c.password, "nats-password", "", "the user's password; better given as KVSLOTS_NATS_PASSWORD")
	flags.StringVar(&c.token, "nats-token", "", "token for --nats-url"+clients+"; better given as KVSLOTS_NATS_TOKEN")
	flags.StringVar(&c.tlsCert, "nats-tls-cert", "", "file with the certificate of this program, for NATS")
	flags.StringVar(&c.tlsKey, "nats-tls-key", "", certificateKeyUsage)
	flags.StringVar(&c.tlsCA, "nats-tls-ca", "", "file with the certificate authorities to trust for --nats-url"+authorities)
}

// validate checks combinations of flags.
func (c *connection) validate() error {
	if err := c.tls.validate(); err != nil {
		return err
	}
	if c.nats.url != "" {
		return c.nats.validate()
	}
	return validateServer(c.server)
}

func validateServer(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || !isPortOfURL(parsed.Port()) || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return usagef("--server must be a URL such as %s, with a port between 1 and 65535", defaultServer)
	}
	return nil
}

// forListener reports whether credentials or certificates are given that also apply to
// --nats-addr.
func (c *natsConnection) forListener() bool {
	return c.user != "" || c.password != "" || c.token != "" || c.tlsCert != "" || c.tlsKey != "" || c.tlsCA != ""
}

// validate returns an error for each rule that is broken. Errors do not contain a URL,
// which may contain a password.
func (c *natsConnection) validate() error {
	var found problems
	found.when(slices.ContainsFunc(strings.Split(c.url, ","), func(text string) bool { return !isNATSURL(strings.TrimSpace(text)) }),
		"--nats-url must be URLs such as nats://host:4222, with ports between 1 and 65535, separated by commas")
	found.add(c.validatePairs())
	ways := slices.DeleteFunc([]string{c.creds, c.user, c.token, c.nkey}, func(way string) bool { return way == "" })
	found.when(len(ways) > 1, "--nats-creds, --nats-user, --nats-token and --nats-nkey exclude each other")
	return found.err()
}

// validatePairs checks flags that are of no use without another one, at --nats-addr too.
func (c *natsConnection) validatePairs() error {
	var found problems
	found.when((c.user == "") != (c.password == ""), "--nats-user and --nats-password go together")
	found.when((c.tlsCert == "") != (c.tlsKey == ""), "--nats-tls-cert and --nats-tls-key go together")
	return found.err()
}

// dial connects to the gateway, or to NATS. The caller must close the lender.
func (c *connection) dial() (*lender, error) {
	if c.nats.url == "" {
		config, err := c.tls.config()
		if err != nil {
			return nil, err
		}
		over, err := client.Dial(c.server, client.Config{Token: c.token.value, TLS: config})
		if err != nil {
			return nil, err
		}
		return &lender{client: over, timeout: httpTimeout}, nil
	}
	if err := c.nats.ownInbox(); err != nil {
		return nil, err
	}
	nc, err := c.nats.dial()
	if err != nil {
		return nil, err
	}
	return &lender{client: client.New(nc), nats: nc, timeout: requestTimeout}, nil
}

// ownInbox sets the prefix of reply subjects to the nkey's own, unless a prefix was given.
// Other clients may be permitted to subscribe below _INBOX, and would read the leases in
// answers.
func (c *natsConnection) ownInbox() error {
	if c.nkey == "" || c.inbox != "" {
		return nil
	}
	option, err := c.nkeyOption()
	if err != nil {
		return err
	}
	var options nats.Options
	if err := option(&options); err != nil {
		return err
	}
	c.inbox = subjects.Inbox + "_" + options.Nkey
	return nil
}

func (c *natsConnection) nkeyOption() (nats.Option, error) {
	option, err := nats.NkeyOptionFromSeed(c.nkey)
	if err != nil {
		return nil, fmt.Errorf("--nats-nkey: %w", withoutPath(err))
	}
	return option, nil
}

func (c *natsConnection) dial(more ...nats.Option) (*nats.Conn, error) {
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(c.url, append(options, more...)...)
	if err == nil {
		return nc, nil
	}
	failed := fmt.Errorf("NATS: %w", withoutPath(err))
	if unreachable(err) {
		return nil, &client.Unanswered{Err: failed}
	}
	return nil, failed
}

// unreachable reports whether a connection failed before a server answered.
func unreachable(err error) bool {
	known := []error{nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, io.EOF}
	_, ok := errors.AsType[net.Error](err)
	return ok || slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) })
}

// checkFiles returns an error, which names the flag, for each file that cannot be read, or
// has no valid certificate.
func (c *natsConnection) checkFiles() error {
	var found problems
	read := map[string][]byte{} // by flag
	for _, file := range []struct{ flag, path string }{
		{"nats-creds", c.creds}, {"nats-nkey", c.nkey},
		{"nats-tls-ca", c.tlsCA}, {"nats-tls-cert", c.tlsCert}, {"nats-tls-key", c.tlsKey},
	} {
		if file.path == "" {
			continue
		}
		content, err := readSetting(file.path)
		if err != nil {
			found.add(fmt.Errorf("--%s: %w", file.flag, withoutPath(err)))
			continue
		}
		read[file.flag] = content
	}
	if cert, key := read["nats-tls-cert"], read["nats-tls-key"]; cert != nil && key != nil {
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			found.add(fmt.Errorf("--nats-tls-cert, --nats-tls-key: %w", err))
		}
	}
	if authorities := read["nats-tls-ca"]; authorities != nil {
		_, err := parseAuthorities("nats-tls-ca", authorities)
		found.add(err)
	}
	return found.err()
}

func (c *natsConnection) options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(clientNATSName),
		nats.Timeout(natsDialing),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.IgnoreAuthErrorAbort(), // the server's configuration may be about to change
	}
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	if c.nkey != "" {
		nkey, err := c.nkeyOption()
		if err != nil {
			return nil, err
		}
		options = append(options, nkey)
	}
	for _, given := range []struct {
		value  string
		option nats.Option
	}{
		{c.creds, nats.UserCredentials(c.creds)},
		{c.user, nats.UserInfo(c.user, c.password)},
		{c.token, nats.Token(c.token)},
		{c.inbox, nats.CustomInboxPrefix(c.inbox)},
		{c.tlsCA, nats.RootCAs(c.tlsCA)},
		{c.tlsCert, nats.ClientCert(c.tlsCert, c.tlsKey)},
	} {
		if given.value != "" {
			options = append(options, given.option)
		}
	}
	return options, nil
}
