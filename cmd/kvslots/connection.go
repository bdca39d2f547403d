package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// connection says where the commands that ask a gateway find one.
type connection struct {
	server string
	token  authToken // for the server
	tls    serverTLS
	nats   natsConnection
}

// natsConnection says how to connect to a NATS.
type natsConnection struct {
	url      string // may hold a password: never printed
	creds    string
	user     string
	password string
	token    string
	nkey     string
	inbox    string // prefix of the subjects on which answers come; "" for the usual
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

	// requestTimeout bounds what does not wait for a slot, and a borrow beyond
	// its wait.
	requestTimeout = 10 * time.Second
)

func (c *connection) addFlags(flags *pflag.FlagSet) {
	c.server = defaultServer
	flags.StringVar(&c.server, serverFlag, c.server, "ask this gateway, over HTTP")
	c.token.addFlags(flags, "the bearer token that --server asks for")
	c.tls.addFlags(flags)
	c.nats.addFlags(flags, "", "ask over this NATS instead (comma-separated URLs)")
	flags.StringVar(&c.nats.inbox, "nats-inbox", "", "take answers below this subject; with --nats-nkey, _INBOX_<public key> unless given")
}

func (c *natsConnection) addFlags(flags *pflag.FlagSet, url, usage string) {
	flags.StringVar(&c.url, natsURLFlag, url, usage)
	flags.StringVar(&c.creds, "nats-creds", "", "credentials file for --nats-url")
	flags.StringVar(&c.user, "nats-user", "", "user for --nats-url")
	flags.StringVar(&c.password, "nats-password", "", "password for --nats-url; better given as KVSLOTS_NATS_PASSWORD")
	flags.StringVar(&c.token, "nats-token", "", "token for --nats-url; better given as KVSLOTS_NATS_TOKEN")
	flags.StringVar(&c.nkey, "nats-nkey", "", "file with an nkey seed for --nats-url")
	flags.StringVar(&c.tlsCA, "nats-tls-ca", "", "file with the authorities to trust for --nats-url")
	flags.StringVar(&c.tlsCert, "nats-tls-cert", "", "file with our certificate for --nats-url")
	flags.StringVar(&c.tlsKey, "nats-tls-key", "", "file with its key")
}

// validate checks what no flag can see alone.
func (c *connection) validate() error {
	if err := c.tls.validate(); err != nil {
		return err
	}
	if c.nats.url != "" {
		return c.nats.validate()
	}
	parsed, err := url.Parse(c.server)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return usagef("--server must be a URL such as %s", defaultServer)
	}
	return nil
}

// forListener reports whether credentials or certificates are given that --nats-addr
// has a use for.
func (c *natsConnection) forListener() bool {
	return c.user != "" || c.password != "" || c.token != "" || c.tlsCert != "" || c.tlsKey != "" || c.tlsCA != ""
}

// validate returns an error for each rule that is broken. Errors do not contain a URL,
// which may contain a password.
func (c *natsConnection) validate() error {
	var found problems
	found.when(slices.ContainsFunc(strings.Split(c.url, ","), func(text string) bool { return !isNATSURL(strings.TrimSpace(text)) }),
		"--nats-url must be URLs such as nats://host:4222, separated by commas")
	found.add(c.validatePairs())
	ways := 0
	for _, way := range []string{c.creds, c.user, c.token, c.nkey} {
		if way != "" {
			ways++
		}
	}
	found.when(ways > 1, "--nats-creds, --nats-user, --nats-token and --nats-nkey exclude each other")
	return found.err()
}

// validatePairs checks flags that are of no use without another one, at --nats-addr too.
func (c *natsConnection) validatePairs() error {
	var found problems
	found.when((c.user == "") != (c.password == ""), "--nats-user and --nats-password go together")
	found.when((c.tlsCert == "") != (c.tlsKey == ""), "--nats-tls-cert and --nats-tls-key go together")
	return found.err()
}

// dial connects to whatever answers. The caller closes it.
func (c *connection) dial() (*lender, error) {
	if c.nats.url == "" {
		config, err := c.tls.config()
		if err != nil {
			return nil, err
		}
		over, err := client.Dial(c.server, client.Config{Token: c.token.value, TLS: config})
		return &lender{client: over, timeout: httpTimeout}, err
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

// ownInbox has answers come where only the holder of the nkey may listen. Other
// clients of the same NATS can read the usual inboxes, and the leases in them.
func (c *natsConnection) ownInbox() error {
	if c.nkey == "" || c.inbox != "" {
		return nil
	}
	option, err := nats.NkeyOptionFromSeed(c.nkey)
	if err != nil {
		return fmt.Errorf("--nats-nkey: %w", withoutPath(err))
	}
	var options nats.Options
	if err := option(&options); err != nil {
		return fmt.Errorf("--nats-nkey: %w", withoutPath(err))
	}
	c.inbox = subjects.Inbox + "_" + options.Nkey
	return nil
}

func (c *natsConnection) dial() (*nats.Conn, error) {
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(c.url, options...)
	if err != nil && unreachable(err) {
		return nil, &client.Unanswered{Err: fmt.Errorf("NATS: %w", withoutPath(err))}
	}
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", withoutPath(err))
	}
	return nc, nil
}

// unreachable reports whether a connection failed before a server had a say.
func unreachable(err error) bool {
	for _, known := range []error{nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, io.EOF} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// checkFiles returns an error for each file that cannot be read, which names its flag.
func (c *natsConnection) checkFiles() error {
	var found problems
	for _, file := range []struct{ flag, path string }{
		{"nats-creds", c.creds}, {"nats-nkey", c.nkey},
		{"nats-tls-ca", c.tlsCA}, {"nats-tls-cert", c.tlsCert}, {"nats-tls-key", c.tlsKey},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			found.add(fmt.Errorf("--%s: %w", file.flag, withoutPath(err)))
		}
	}
	return found.err()
}

func (c *natsConnection) options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(clientNATSName),
		nats.Timeout(natsDialing),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.IgnoreAuthErrorAbort(), // while a server is being configured anew
	}
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	if c.creds != "" {
		options = append(options, nats.UserCredentials(c.creds))
	}
	if c.user != "" {
		options = append(options, nats.UserInfo(c.user, c.password))
	}
	if c.token != "" {
		options = append(options, nats.Token(c.token))
	}
	if c.nkey != "" {
		nkey, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return nil, fmt.Errorf("--nats-nkey: %w", withoutPath(err))
		}
		options = append(options, nkey)
	}
	if c.inbox != "" {
		options = append(options, nats.CustomInboxPrefix(c.inbox))
	}
	if c.tlsCA != "" {
		options = append(options, nats.RootCAs(c.tlsCA))
	}
	if c.tlsCert != "" {
		options = append(options, nats.ClientCert(c.tlsCert, c.tlsKey))
	}
	return options, nil
}
