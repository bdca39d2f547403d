package settings

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

type NATS struct {
	URL      string // may contain a password: never printed
	inbox    string // prefix of reply subjects; "" means the default of NATS clients
	creds    string
	user     string
	password string
	token    string
	nkey     string
	tlsCert  string
	tlsKey   string
	tlsCA    string
	ownInbox bool // with an nkey, the default of inbox is the nkey's own
}

const (
	natsURLFlag    = "nats-url"
	natsAddrFlag   = "nats-addr"
	clientNATSName = "kvslots command"

	DialTimeout = 5 * time.Second
)

// AddFlags declares the flags. url is the default.
func (n *NATS) AddFlags(flags *pflag.FlagSet, url, usage string) {
	n.addFlags(table{flags}, url, usage, "", "")
}

// addFlags declares the flags. clients and authorities say what some of those of serve mean
// for the listener of the embedded server.
func (n *NATS) addFlags(flags table, url, usage, clients, authorities string) {
	dialed, either := needs("", natsURLFlag), needs("", natsURLFlag, natsAddrFlag)
	flags.row(natsURLFlag, plain(&n.URL, url), usage)
	flags.row("nats-creds", plain(&n.creds, ""), "credentials file for --nats-url", secretFile, dialed)
	flags.row("nats-nkey", plain(&n.nkey, ""), "file with an nkey seed for --nats-url", secretFile, dialed)
	flags.row("nats-user", plain(&n.user, ""), "user for --nats-url"+clients, either)
	flags.row("nats-password", plain(&n.password, ""), "the user's password; better given as KVSLOTS_NATS_PASSWORD", secret, either)
	flags.row("nats-token", plain(&n.token, ""), "token for --nats-url"+clients+"; better given as KVSLOTS_NATS_TOKEN", secret, either)
	flags.row("nats-tls-cert", plain(&n.tlsCert, ""), "file with the certificate of this program, for NATS", either)
	flags.row("nats-tls-key", plain(&n.tlsKey, ""), certificateKeyUsage, secretFile, either)
	flags.row("nats-tls-ca", plain(&n.tlsCA, ""), "file with the certificate authorities to trust for --nats-url"+authorities, either)
}

// check returns an error for each rule that is broken. Errors do not contain a URL,
// which may contain a password.
func (n *NATS) check(flags *pflag.FlagSet, _ io.Reader) error {
	var found problems
	found.when(slices.ContainsFunc(splitList(n.URL), func(text string) bool { return !isNATSURL(text) }),
		"--nats-url must be URLs such as nats://host:4222, with ports between 1 and 65535, separated by commas")
	found.add(n.checkPairs(flags))
	ways := given(flags, "nats-creds", "nats-user", "nats-token", "nats-nkey")
	found.when(len(ways) > 1, "%s exclude each other", strings.Join(ways, " and "))
	return found.err()
}

// checkPairs checks flags that are of no use without another one, at --nats-addr too.
func (n *NATS) checkPairs(flags *pflag.FlagSet) error {
	return errors.Join(checkPair(flags, "nats-user", "nats-password"), checkPair(flags, "nats-tls-cert", "nats-tls-key"))
}

// isNATSURL reports whether nats.Connect accepts text: a URL, or a host and port
// without a scheme.
func isNATSURL(text string) bool {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	return isURL(text, "nats", "tls", "ws", "wss")
}

// Shown returns URL for errors: without users, passwords and tokens.
func (n *NATS) Shown() string { return shown(n.URL, "nats://") }

// splitURLs returns the URLs of a list, without empty ones.
func splitURLs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// shown returns the schemes and hosts of URLs separated by commas.
func shown(urls, scheme string) string {
	var hosts []string
	for _, text := range splitURLs(urls) {
		if !strings.Contains(text, "://") {
			text = scheme + text
		}
		if parsed, err := url.Parse(text); err == nil {
			hosts = append(hosts, parsed.Scheme+"://"+parsed.Host)
		}
	}
	return strings.Join(hosts, ", ")
}

// CheckFiles returns an error, which names the flag, for each file that cannot be read, or
// has no valid certificate.
func (n *NATS) CheckFiles() error {
	read, err := readFiles(
		fileOf{"nats-creds", n.creds}, fileOf{"nats-nkey", n.nkey},
		fileOf{"nats-tls-ca", n.tlsCA}, fileOf{"nats-tls-cert", n.tlsCert}, fileOf{"nats-tls-key", n.tlsKey})
	var found problems
	found.add(err)
	_, err = parseKeyPair(read, "nats-tls-cert", "nats-tls-key")
	found.add(err)
	_, err = parseAuthorities(read, "nats-tls-ca")
	found.add(err)
	return found.err()
}

// Options returns the options of a connection, after CheckFiles.
func (n *NATS) Options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(clientNATSName),
		nats.Timeout(DialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond), // a cut connection is away for at least that long
		nats.IgnoreAuthErrorAbort(),                // the server's configuration may be about to change
	}
	if err := n.CheckFiles(); err != nil {
		return nil, err
	}
	inbox := n.inbox
	if n.nkey != "" {
		nkey, err := nats.NkeyOptionFromSeed(n.nkey)
		if err != nil {
			return nil, fmt.Errorf("--nats-nkey: %w", WithoutPath(err))
		}
		options = append(options, nkey)
		if n.ownInbox && inbox == "" {
			// Other clients may be permitted to subscribe below _INBOX, and would read the
			// leases in answers.
			var key nats.Options
			if err := nkey(&key); err != nil {
				return nil, err
			}
			inbox = subjects.Inbox + "_" + key.Nkey
		}
	}
	for _, given := range []struct {
		value  string
		option nats.Option
	}{
		{n.creds, nats.UserCredentials(n.creds)},
		{n.user, nats.UserInfo(n.user, n.password)},
		{n.token, nats.Token(n.token)},
		{inbox, nats.CustomInboxPrefix(inbox)},
		{n.tlsCA, nats.RootCAs(n.tlsCA)},
		{n.tlsCert, nats.ClientCert(n.tlsCert, n.tlsKey)},
	} {
		if given.value != "" {
			options = append(options, given.option)
		}
	}
	return options, nil
}

// OwnInboxes gives a connection inboxes that clients cannot subscribe to, and cannot
// guess: on a NATS where they may subscribe below _INBOX, they would read what JetStream,
// functions and the server answer to the gateway, and could answer in their place.
func OwnInboxes() nats.Option {
	return nats.CustomInboxPrefix(subjects.Gateway + "." + rand.Text())
}
