package settings

import (
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	serverFlag    = "server"
	defaultServer = "http://127.0.0.1:8080"
)

// Gateway has the flags that choose a gateway, and how to reach it. A command that declares
// only some of them leaves the others empty.
type Gateway struct {
	Server string // URLs separated by commas; may contain a password
	Token  Token  // for Server, and for requests of operators over NATS
	TLS    ClientTLS
	NATS   NATS
}

func (g *Gateway) AddFlags(flags *pflag.FlagSet) {
	g.addServerFlag(flags)
	g.addAccessFlags(flags, "bearer token for --server, and for operators over NATS")
	g.NATS.AddFlags(flags, "", "call gateways over this NATS instead (comma-separated URLs)")
	g.NATS.ownInbox = true
	flags.StringVar(&g.NATS.inbox, "nats-inbox", "", "prefix of the subjects for answers; with --nats-nkey the default is _INBOX_<public key>")
}

// AddReadyFlags declares the flags for a gateway that is asked without a token.
func (g *Gateway) AddReadyFlags(flags *pflag.FlagSet) {
	g.addServerFlag(flags)
	g.TLS.addFlags(table{flags})
}

// AddBenchFlags declares the flags for a gateway that is asked over HTTP, or none.
func (g *Gateway) AddBenchFlags(flags *pflag.FlagSet) {
	flags.StringVar(&g.Server, serverFlag, "", "measure the gateway at this URL, over the transports http and v1")
	g.addAccessFlags(flags, "bearer token of the gateway at --server")
}

func (g *Gateway) addAccessFlags(flags *pflag.FlagSet, token string) {
	g.Token.addFlags(table{flags}, token, "file with the bearer token, in its first line, as serve reads it")
	g.TLS.addFlags(table{flags})
}

func (g *Gateway) addServerFlag(flags *pflag.FlagSet) {
	g.Server = defaultServer
	flags.Var(&servers{target: &g.Server}, serverFlag, "call the gateway at this URL, over HTTP; of several, comma-separated or repeated, the first that answers")
}

// servers is a flag that takes URLs, separated by commas. It may be repeated.
type servers struct {
	target *string
	given  bool
}

func (s *servers) Set(text string) error {
	if s.given {
		text = *s.target + "," + text
	}
	*s.target, s.given = text, true
	return nil
}

func (s *servers) String() string {
	if s.target == nil { // pflag calls String on a zero value
		return ""
	}
	return *s.target
}

func (s *servers) Type() string { return "urls" }

// HasPath reports whether a URL of Server has a path.
func (g *Gateway) HasPath() bool {
	return slices.ContainsFunc(g.Servers(), func(text string) bool {
		parsed, err := url.Parse(text)
		return err == nil && strings.Trim(parsed.Path, "/") != ""
	})
}

// Shown returns Server for errors: without user information and paths.
func (g *Gateway) Shown() string { return shown(g.Server, "") }

func (g *Gateway) Servers() []string { return splitURLs(g.Server) }

func (g *Gateway) check(flags *pflag.FlagSet, stdin io.Reader) error {
	var found problems
	found.add(checkPair(flags, "tls-cert", "tls-key"))
	if g.NATS.URL != "" {
		found.add(g.NATS.check(flags, nil))
	} else if flags.Changed(serverFlag) {
		wrong := slices.ContainsFunc(g.Servers(), func(text string) bool { return !isURL(text, "http", "https") })
		found.when(wrong || len(g.Servers()) == 0, "--server must be a URL such as %s, with a port between 1 and 65535, or several, separated by commas", defaultServer)
	}
	if err := found.err(); err != nil {
		return err
	}
	_, err := g.Token.load(flags, stdin)
	return err
}
