package main

import (
	"errors"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// maxDuration is above any lease or wait that makes sense, and far below what
// would overflow.
const maxDuration = 365 * 24 * time.Hour

// settings are serve's, from flags, environment and file.
type settings struct {
	httpAddr      string
	authToken     authToken
	httpRateLimit float64 // requests a second
	httpRateBurst int
	httpOrigins   string // separated by commas
	httpIdle      time.Duration
	drainWait     time.Duration

	dataDir string
	sync    string

	natsURL      string
	natsCreds    string
	natsUser     string
	natsPassword string // a secret: never logged
	natsToken    string // likewise
	natsNkey     string
	natsTLSCert  string
	natsTLSKey   string
	natsTLSCA    string
	natsReplies  string // prefixes, separated by commas

	natsAddr     string
	natsNkeys    string // separated by commas
	natsInsecure bool

	functions functionSettings

	replicas int
	maxTTL   time.Duration
	maxWait  time.Duration

	defaultLeaseTTL  time.Duration
	maxLocks         int
	maxWaiters       int
	maxSessions      int
	maxSessionsPerIP int

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

		httpIdle:        20 * time.Second,
		defaultLeaseTTL: 33 * time.Second,
		maxLocks:        1024,

		functions: defaultFunctionSettings(),

		logLevel:  "info",
		logFormat: "json",
	}
}

// addFlags declares a flag for each setting. Their names, and the names of
// their environment twins, are a contract.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.Var(address{&s.httpAddr}, "http-addr", "listen for HTTP on this address; port 0 picks a free one")
	flags.Var(port{&s.httpAddr}, "http-port", "listen for HTTP on this port of 127.0.0.1; another way to say --http-addr")
	s.authToken.addFlags(flags, "ask HTTP requests for this bearer token")
	flags.Var(decimal{&s.httpRateLimit, 0.001, 1e6}, "http-rate-limit", "HTTP requests a second from each client address; 0 means no limit")
	flags.Var(number{&s.httpRateBurst, 0, 1e6}, "http-rate-burst", "how many of them at once; 0 means as many as in two seconds, rounded up")
	flags.Var(origins{&s.httpOrigins}, "http-cors-allowed-origins", "let web pages of these origins ask (comma-separated; * means any)")
	flags.Var(duration{&s.drainWait, 0, time.Hour, false}, "drain-wait", "keep listening for this long after SIGTERM, answering 503 to borrowers")
	flags.StringVar(&s.dataDir, "data-dir", s.dataDir, "directory of the embedded NATS server's storage")
	flags.Var(choice{&s.sync, []string{"always", "interval"}}, "sync", "flush to disk before each answer, or once a second")
	flags.Var(address{&s.natsAddr}, "nats-addr", "let NATS clients in on this address; without it the embedded server has no listener")
	flags.StringVar(&s.natsNkeys, "nats-nkeys", s.natsNkeys, "let in at --nats-addr who has one of these nkeys (comma-separated public keys)")
	flags.BoolVar(&s.natsInsecure, "nats-insecure", s.natsInsecure, "let everybody in at --nats-addr, from other machines, too")
	flags.StringVar(&s.natsURL, "nats-url", s.natsURL, "use this NATS instead of embedding one (comma-separated URLs)")
	flags.StringVar(&s.natsCreds, "nats-creds", s.natsCreds, "credentials file for --nats-url")
	flags.StringVar(&s.natsNkey, "nats-nkey", s.natsNkey, "file with an nkey seed for --nats-url")
	flags.StringVar(&s.natsUser, "nats-user", s.natsUser, "user for --nats-url, or whom to let in at --nats-addr")
	flags.StringVar(&s.natsPassword, "nats-password", s.natsPassword, "the user's password; better given as KVSLOTS_NATS_PASSWORD")
	flags.StringVar(&s.natsToken, "nats-token", s.natsToken, "token for --nats-url, or to be let in with at --nats-addr; better given as KVSLOTS_NATS_TOKEN")
	flags.StringVar(&s.natsTLSCert, "nats-tls-cert", s.natsTLSCert, "file with our certificate, for --nats-url or --nats-addr")
	flags.StringVar(&s.natsTLSKey, "nats-tls-key", s.natsTLSKey, "file with its key")
	flags.StringVar(&s.natsTLSCA, "nats-tls-ca", s.natsTLSCA, "file with the authorities to trust for --nats-url; those whose client certificates are asked for at --nats-addr")
	flags.Var(replyPrefixes{&s.natsReplies}, "nats-reply-prefixes", "with --nats-url, answer below these subjects, too, not only below _INBOX and _INBOX_… (comma-separated)")
	flags.Var(number{&s.replicas, 1, 5}, "replicas", "replicas of the bucket; more than 1 needs --nats-url")
	flags.Var(duration{&s.maxTTL, time.Second, maxDuration, true}, "max-ttl", "longest lease; a larger ttl is clamped to it")
	flags.Var(duration{&s.maxWait, time.Second, maxDuration, true}, "max-wait", "longest wait for a slot; a larger wait is clamped to it")
	flags.Var(duration{&s.defaultLeaseTTL, time.Second, maxDuration, true}, "default-lease-ttl", "lease of a lock or semaphore that is asked for without a ttl")
	flags.Var(duration{&s.httpIdle, time.Second, kvslots.MaxSessionIdle / 2, true}, "http-session-idle-timeout", "tell clients to ping their session at least this often; it ends at twice that")
	flags.Var(number{&s.maxLocks, 0, math.MaxInt32}, "max-locks", "how many locks and semaphores may be in use at once; 0 means no limit")
	flags.Var(number{&s.maxWaiters, 0, math.MaxInt32}, "max-waiters", "how many may wait for each of them; 0 means no limit")
	flags.Var(number{&s.maxSessions, 0, math.MaxInt32}, "max-sessions", "how many sessions there may be; 0 means no limit")
	flags.Var(number{&s.maxSessionsPerIP, 0, math.MaxInt32}, "max-sessions-per-ip", "how many of them from each client address over HTTP; 0 means no limit")
	s.functions.addFlags(flags)
	flags.Var(choice{&s.logLevel, []string{"debug", "info", "warn", "error"}}, "log-level", "log lines of this level and above")
	flags.Var(choice{&s.logFormat, []string{"json", "console"}}, "log-format", "json for machines, console for people")
	flags.String(configFlag, "", "read settings from this file (YAML, TOML or JSON); its keys are the flags' names")
}

// validate checks what no flag can see alone. Errors do not repeat a URL: it
// may hold a password.
func (s *settings) validate() error {
	if s.httpRateBurst != 0 && s.httpRateLimit == 0 {
		return usagef("--http-rate-burst needs --http-rate-limit")
	}
	if s.natsURL == "" {
		return s.validateEmbedded()
	}
	if s.natsAddr != "" || s.natsNkeys != "" || s.natsInsecure {
		return usagef("--nats-addr, --nats-nkeys and --nats-insecure are for the embedded server: they exclude --nats-url")
	}
	if s.functions.asksForSecret() {
		return usagef("--forrst-fn-user, --forrst-fn-password and --forrst-fn-nkeys are for the embedded server: they exclude --nats-url")
	}
	for _, reply := range splitList(s.natsReplies) {
		if calls := s.functions.prefix + "."; strings.HasPrefix(reply+".", calls) || strings.HasPrefix(calls, reply+".") {
			return usagef("--nats-reply-prefixes must be apart from --forrst-fn-prefix: an answer there would call a function")
		}
	}
	connection := s.connection()
	return connection.validate()
}

// connection is how to reach the NATS of --nats-url.
func (s *settings) connection() natsConnection {
	return natsConnection{
		url:   s.natsURL,
		creds: s.natsCreds, user: s.natsUser, password: s.natsPassword, token: s.natsToken, nkey: s.natsNkey,
		tlsCert: s.natsTLSCert, tlsKey: s.natsTLSKey, tlsCA: s.natsTLSCA,
	}
}

func (s *settings) validateEmbedded() error {
	if s.dataDir == "" {
		return usagef("--data-dir must not be empty")
	}
	if s.natsCreds != "" || s.natsNkey != "" {
		return usagef("--nats-creds and --nats-nkey need --nats-url")
	}
	if s.natsAddr == "" && (s.natsUser != "" || s.natsPassword != "" || s.natsToken != "" || s.natsTLSCert != "" || s.natsTLSKey != "" || s.natsTLSCA != "") {
		return usagef("--nats-user, --nats-password, --nats-token and --nats-tls-… need --nats-url or --nats-addr")
	}
	if s.natsAddr == "" && (s.natsNkeys != "" || s.natsInsecure) {
		return usagef("--nats-nkeys and --nats-insecure need --nats-addr")
	}
	if s.natsReplies != "" {
		return usagef("--nats-reply-prefixes needs --nats-url: at --nats-addr clients may subscribe below _INBOX only")
	}
	if s.natsAddr == "" && s.functions.asksForSecret() {
		return usagef("--forrst-fn-user, --forrst-fn-password and --forrst-fn-nkeys need --nats-addr")
	}
	if s.replicas != 1 {
		return usagef("--replicas %d needs --nats-url: the embedded server is a single one", s.replicas)
	}
	err := s.embedded().Validate()
	if errors.Is(err, natsembed.ErrOpenListener) {
		return usagef("--nats-addr can be reached from other machines, and would let everybody in: give --nats-user and " +
			"--nats-password, --nats-token, --nats-nkeys, or --nats-tls-ca to ask for client certificates; or --nats-insecure")
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// embeddedSync has the server flush in groups, if it can, where every write is to be
// flushed before it is told.
func (s *settings) embeddedSync() natsembed.Sync {
	if s.sync == string(natsembed.SyncAlways) {
		return natsembed.SyncGroup
	}
	return natsembed.Sync(s.sync)
}

// embedded is the configuration of the embedded server.
func (s *settings) embedded() natsembed.Config {
	cfg := natsembed.Config{
		DataDir: s.dataDir,
		Sync:    s.embeddedSync(),
		Addr:    s.natsAddr,
		User:    s.natsUser, Password: s.natsPassword, Token: s.natsToken,
		Functions: s.functions.embedded(),
		TLSCert:   s.natsTLSCert, TLSKey: s.natsTLSKey, TLSCA: s.natsTLSCA,
		Insecure: s.natsInsecure,
	}
	for _, key := range strings.Split(s.natsNkeys, ",") {
		if key = strings.TrimSpace(key); key != "" {
			cfg.Nkeys = append(cfg.Nkeys, key)
		}
	}
	return cfg
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
