package main

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// maxDuration is above any lease or wait that makes sense, and far below what
// would overflow.
const maxDuration = 365 * 24 * time.Hour

// settings are serve's, from flags, environment and file.
type settings struct {
	httpAddr  string
	drainWait time.Duration

	dataDir string
	sync    string

	natsURL      string
	natsCreds    string
	natsUser     string
	natsPassword string // a secret: never logged

	replicas int
	maxTTL   time.Duration
	maxWait  time.Duration

	logLevel  string
	logFormat string
}

func defaultSettings() settings {
	return settings{
		httpAddr:  "127.0.0.1:8080",
		drainWait: 2 * time.Second,
		dataDir:   "./kvslots-data",
		sync:      "always",
		replicas:  1,
		maxTTL:    time.Hour,
		maxWait:   time.Minute,
		logLevel:  "info",
		logFormat: "json",
	}
}

// addFlags declares a flag for each setting. Their names, and the names of
// their environment twins, are a contract.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.Var(address{&s.httpAddr}, "http-addr", "listen for HTTP on this address; port 0 picks a free one")
	flags.Var(duration{&s.drainWait, 0, time.Hour, false}, "drain-wait", "keep listening for this long after SIGTERM, answering 503 to borrowers")
	flags.StringVar(&s.dataDir, "data-dir", s.dataDir, "directory of the embedded NATS server's storage")
	flags.Var(choice{&s.sync, []string{"always", "interval"}}, "sync", "flush to disk before each acknowledgement, or once a second")
	flags.StringVar(&s.natsURL, "nats-url", s.natsURL, "use this NATS instead of embedding one (comma-separated URLs)")
	flags.StringVar(&s.natsCreds, "nats-creds", s.natsCreds, "credentials file for --nats-url")
	flags.StringVar(&s.natsUser, "nats-user", s.natsUser, "user for --nats-url")
	flags.StringVar(&s.natsPassword, "nats-password", s.natsPassword, "password for --nats-url; better given as KVSLOTS_NATS_PASSWORD")
	flags.Var(number{&s.replicas, 1, 5}, "replicas", "replicas of the bucket; more than 1 needs --nats-url")
	flags.Var(duration{&s.maxTTL, time.Second, maxDuration, true}, "max-ttl", "longest lease; a larger ttl is clamped to it")
	flags.Var(duration{&s.maxWait, time.Second, maxDuration, true}, "max-wait", "longest wait for a slot; a larger wait is clamped to it")
	flags.Var(choice{&s.logLevel, []string{"debug", "info", "warn", "error"}}, "log-level", "log lines of this level and above")
	flags.Var(choice{&s.logFormat, []string{"json", "console"}}, "log-format", "json for machines, console for people")
	flags.String(configFlag, "", "read settings from this file (YAML, TOML or JSON); its keys are the flags' names")
}

// validate checks what no flag can see alone. Errors do not repeat a URL: it
// may hold a password.
func (s *settings) validate() error {
	if s.natsURL == "" {
		return s.validateEmbedded()
	}
	for _, text := range strings.Split(s.natsURL, ",") {
		if !isNATSURL(strings.TrimSpace(text)) {
			return usagef("--nats-url must be URLs such as nats://host:4222, separated by commas")
		}
	}
	if (s.natsUser == "") != (s.natsPassword == "") {
		return usagef("--nats-user and --nats-password go together")
	}
	if s.natsCreds != "" && s.natsUser != "" {
		return usagef("--nats-creds and --nats-user exclude each other")
	}
	return nil
}

func (s *settings) validateEmbedded() error {
	if s.dataDir == "" {
		return usagef("--data-dir must not be empty")
	}
	if s.natsCreds != "" || s.natsUser != "" || s.natsPassword != "" {
		return usagef("--nats-creds, --nats-user and --nats-password need --nats-url")
	}
	if s.replicas != 1 {
		return usagef("--replicas %d needs --nats-url: the embedded server is a single one", s.replicas)
	}
	return nil
}

// isNATSURL accepts what nats.Connect does: a host and port without a scheme,
// too.
func isNATSURL(text string) bool {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Hostname() == "" {
		return false
	}
	switch parsed.Scheme {
	case "nats", "tls", "ws", "wss":
		return true
	}
	return false
}
