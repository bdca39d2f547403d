package main

import (
	"errors"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// maxDuration is longer than any useful lease or wait, and does not overflow.
const maxDuration = 365 * 24 * time.Hour

// settings are the settings of serve, from flags, environment and file.
type settings struct {
	httpAddr                            string
	tls                                 tlsSettings
	httpInsecure                        bool
	authToken                           authToken
	httpRateLimit                       float64 // requests a second
	httpRateBurst                       int
	httpOrigins                         string // separated by commas
	httpHosts                           string // likewise
	httpProxies                         string // likewise
	maxConnections, maxConnectionsPerIP int
	waits                               gateway.WaitLimits
	drainWait                           time.Duration

	dataDir  string
	maxStore int64 // bytes
	sync     string

	nats        natsConnection // to --nats-url; some fields also apply to --nats-addr
	natsReplies string         // prefixes, separated by commas

	natsAddr          string
	natsNkeys         string // separated by commas
	natsInsecure      bool
	natsMaxConns      int
	natsMaxConnsPerIP share // of natsConnections

	functions functionSettings

	store    kvslots.Config // as far as flags say; see openStore
	locks    lockShares
	sessions gateway.SessionTimes

	logLevel  string
	logFormat string
	debugAddr string
}

func defaultSettings() settings {
	return settings{
		httpAddr:  "127.0.0.1:8080",
		authToken: authToken{again: true},
		drainWait: 2 * time.Second,
		dataDir:   "./kvslots-data",
		sync:      "always",
		store:     kvslots.Config{Replicas: 1, MaxTTL: kvslots.DefaultMaxTTL, MaxWait: kvslots.DefaultMaxWait, MaxLocks: 1024, MaxSessionsPerOrigin: 16384, MaxTombstones: 200_000},
		locks:     lockShares{perSession: share{25, true}, perIP: share{50, true}},
		sessions:  gateway.SessionTimes{DefaultLeaseTTL: wire.DefaultLeaseTTL, IdleTimeout: wire.DefaultIdleTimeout},
		waits:     gateway.WaitLimits{Total: 100_000},
		functions: functionSettings{prefix: forrst.DefaultPrefix, timeout: forrst.DefaultTimeout, forceRelease: true},

		natsMaxConnsPerIP: share{50, true},

		logLevel:  "info",
		logFormat: "json",
	}
}

// addFlags declares a flag for each setting. The names of the flags and of their
// environment variables are a contract.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.Var(address(&s.httpAddr), "http-addr", "listen for HTTP on this address; port 0 picks a free one")
	flags.Var(port(&s.httpAddr), "http-port", "listen for HTTP on this port of 127.0.0.1, instead of --http-addr")
	s.tls.addFlags(flags)
	s.authToken.addFlags(flags, "bearer token that HTTP requests must have")
	flags.BoolVar(&s.httpInsecure, "http-insecure", s.httpInsecure, "accept every HTTP client, including those on other machines")
	flags.Var(decimal(&s.httpRateLimit, 0.001, 1e6), "http-rate-limit", "HTTP requests a second from each client address; 0 means no limit")
	flags.Var(number(&s.httpRateBurst, 0, 1e6), "http-rate-burst", "HTTP requests from each client address at once; 0 means twice --http-rate-limit, which is rounded up to a whole number first")
	flags.Var(origins(&s.httpOrigins), "http-cors-allowed-origins", "accept requests from web pages of these origins (comma-separated; * means any)")
	flags.Var(hostNames(&s.httpHosts), "http-allowed-hosts", "names that HTTP requests may have in Host, besides addresses and localhost (comma-separated); checked on loopback without a token, or if given")
	flags.Var(networks(&s.httpProxies), "trusted-proxies", "networks of proxies whose X-Forwarded-For or Forwarded names the client (comma-separated addresses or CIDRs)")
	s.addLimitFlags(flags)
	flags.Var(duration(&s.drainWait, 0, time.Hour), "drain-wait", "keep listening for this long after SIGTERM, and answer 503 to borrowers")
	flags.StringVar(&s.dataDir, "data-dir", s.dataDir, "directory of the embedded NATS server's storage")
	flags.Var(size(&s.maxStore), "max-store", "bytes that the entries of the embedded NATS server may take, such as 512M or 2G; beyond that, requests that add entries are refused; 0 means that the disk is the limit")
	flags.Var(choice(&s.sync, "always", "interval"), "sync", "flush to disk before each answer, or once a second")
	flags.Var(address(&s.natsAddr), "nats-addr", "accept NATS clients on this address; without it the embedded server has no listener")
	flags.StringVar(&s.natsNkeys, "nats-nkeys", s.natsNkeys, "accept NATS clients at --nats-addr that hold one of these nkeys (comma-separated public keys)")
	flags.BoolVar(&s.natsInsecure, "nats-insecure", s.natsInsecure, "accept every NATS client at --nats-addr, including those on other machines")
	flags.Var(number(&s.natsMaxConns, 0, 1e6), "nats-max-connections", "maximum of NATS clients at --nats-addr; 0 means 1024, or fewer if the limit of open files is low")
	flags.Var(shareFlag(&s.natsMaxConnsPerIP), "nats-max-connections-per-ip", "maximum of NATS clients at --nats-addr of each client address, as a number or as a percentage of --nats-max-connections; 0 means no limit")
	s.nats.addFlags(flags, "", "use this NATS instead of embedding one (comma-separated URLs)", true)
	flags.Var(replyPrefixes(&s.natsReplies), "nats-reply-prefixes", "with --nats-url, also send answers to subjects below these, not only below _INBOX and _INBOX_… (comma-separated)")
	flags.Var(number(&s.store.Replicas, 1, 5), "replicas", "replicas of the bucket; more than 1 needs --nats-url")
	flags.Var(seconds(&s.store.MaxTTL, time.Second, maxDuration), "max-ttl", "longest lease; a larger ttl is clamped to it")
	flags.Var(seconds(&s.store.MaxWait, time.Second, maxDuration), "max-wait", "longest wait for a slot; a larger wait is clamped to it")
	flags.Var(seconds(&s.sessions.DefaultLeaseTTL, time.Second, maxDuration), "default-lease-ttl", "lease of a lock or semaphore in requests without a ttl")
	flags.Var(seconds(&s.sessions.IdleTimeout, time.Second, kvslots.MaxSessionIdle/2), "http-session-idle-timeout", "how often clients must ping their sessions; a session ends after twice this time without a ping")
	flags.Var(number(&s.store.MaxPools, 0, math.MaxInt32), "max-pools", "maximum of registered pools; 0 means no limit")
	flags.Var(seconds(&s.store.PoolIdle, 0, maxDuration), "pool-idle-ttl", "unregister pools that nothing has used for this long; 0 means never")
	flags.Var(number(&s.store.MaxLocks, 0, math.MaxInt32), "max-locks", "maximum of locks and semaphores in use; 0 means no limit")
	flags.Var(shareFlag(&s.locks.perSession), "max-locks-per-session", "maximum of locks and semaphores that each session holds or waits for, as a number or as a percentage of --max-locks; 0 means no limit")
	flags.Var(shareFlag(&s.locks.perIP), "max-locks-per-ip", "the same of each client address, for all its sessions and its calls of functions together; 0 means no limit")
	flags.Var(number(&s.store.MaxWaiters, 0, math.MaxInt32), "max-waiters", "maximum of requests that wait for each lock or semaphore; 0 means no limit")
	flags.Var(number(&s.store.MaxSessions, 0, math.MaxInt32), "max-sessions", "maximum of open sessions; 0 means no limit")
	flags.Var(number(&s.store.MaxSessionsPerOrigin, 0, math.MaxInt32), "max-sessions-per-ip", "maximum of open sessions of each client address; 0 means no limit")
	flags.Var(number(&s.store.MaxTombstones, 0, math.MaxInt32), "max-tombstones", "maximum of keys of pools, names and sessions that have ended and stay for minutes; one client address may leave half of them; 0 means no limit")
	s.functions.addFlags(flags)
	flags.Var(choice(&s.logLevel, "debug", "info", "warn", "error"), "log-level", "log lines of this level and above")
	flags.Var(choice(&s.logFormat, "json", "console"), "log-format", "format of log lines: json, or console for people")
	flags.Var(loopback(&s.debugAddr), "debug-addr", "serve profiles of this process at this loopback address, to every user of the machine")
	flags.String(configFlag, "", "read settings from this file (YAML, TOML or JSON); its keys are the flags' names")
}

// validate checks combinations of flags. Its result has an error for each that is wrong.
// Errors do not contain a URL, which may contain a password.
func (s *settings) validate() error {
	var found problems
	found.when(s.httpRateBurst != 0 && s.httpRateLimit == 0, "--http-rate-burst needs --http-rate-limit")
	found.add(s.validateAccess())
	if s.nats.url == "" {
		found.add(s.validateEmbedded())
	} else {
		found.add(s.validateExternal())
	}
	return found.err()
}

func (s *settings) validateExternal() error {
	var found problems
	found.when(s.natsAddr != "" || s.natsNkeys != "" || s.natsInsecure,
		"--nats-addr, --nats-nkeys and --nats-insecure are for the embedded server: they exclude --nats-url")
	found.when(s.maxStore != 0, "--max-store is for the embedded server: it excludes --nats-url")
	found.when(s.functions.asksForSecret(),
		"--forrst-fn-user, --forrst-fn-password and --forrst-fn-nkeys are for the embedded server: they exclude --nats-url")
	for _, reply := range splitList(s.natsReplies) {
		calls := s.functions.prefix + "."
		found.when(strings.HasPrefix(reply+".", calls) || strings.HasPrefix(calls, reply+"."),
			"--nats-reply-prefixes must not overlap with --forrst-fn-prefix: an answer there would call a function")
	}
	found.add(s.nats.validate())
	return found.err()
}

func (s *settings) validateEmbedded() error {
	var found problems
	found.when(s.dataDir == "", "--data-dir must not be empty")
	found.when(s.nats.creds != "" || s.nats.nkey != "", "--nats-creds and --nats-nkey need --nats-url")
	found.when(s.natsAddr == "" && s.nats.forListener(), "--nats-user, --nats-password, --nats-token and --nats-tls-… need --nats-url or --nats-addr")
	found.when(s.natsAddr == "" && (s.natsNkeys != "" || s.natsInsecure), "--nats-nkeys and --nats-insecure need --nats-addr")
	found.when(s.natsReplies != "", "--nats-reply-prefixes needs --nats-url: at --nats-addr clients may subscribe below _INBOX only")
	found.when(s.natsAddr == "" && s.functions.asksForSecret(), "--forrst-fn-user, --forrst-fn-password and --forrst-fn-nkeys need --nats-addr")
	found.when(s.store.Replicas != 1, "--replicas %d needs --nats-url: there is one embedded server", s.store.Replicas)
	found.add(s.nats.validatePairs())
	if found.err() == nil { // the rules of natsembed repeat some of these
		found.add(s.validateListener())
	}
	return found.err()
}

func (s *settings) validateListener() error {
	switch err := s.embedded().Validate(); {
	case errors.Is(err, natsembed.ErrOpenListener):
		return usagef("--nats-addr can be reached from other machines, and would accept every client: give --nats-user and " +
			"--nats-password, --nats-token, --nats-nkeys, or --nats-tls-ca to require client certificates; or --nats-insecure")
	case err != nil:
		return usageError{err}
	}
	return nil
}

// embeddedSync returns the sync mode of the embedded server. For always it is SyncGroup,
// which has the same durability for clients.
func (s *settings) embeddedSync() natsembed.Sync {
	if s.sync == string(natsembed.SyncAlways) {
		return natsembed.SyncGroup
	}
	return natsembed.Sync(s.sync)
}

// ownConnections are the connections of backend among the listener's clients: service
// and functions.
const ownConnections = 2

func (s *settings) embedded() natsembed.Config {
	return natsembed.Config{
		DataDir:  s.dataDir,
		MaxStore: s.maxStore,
		Sync:     s.embeddedSync(),
		Local:    true,
		Addr:     s.natsAddr,
		User:     s.nats.user, Password: s.nats.password, Token: s.nats.token,
		Nkeys:     splitList(s.natsNkeys),
		Functions: s.functions.embedded(),
		TLSCert:   s.nats.tlsCert, TLSKey: s.nats.tlsKey, TLSCA: s.nats.tlsCA,
		Insecure: s.natsInsecure, MaxConnections: s.natsConnections() + ownConnections, MaxConnectionsPerIP: s.natsMaxConnsPerIP.of(s.natsConnections()),
	}
}

// isNATSURL reports whether nats.Connect accepts text: a URL, or a host and port
// without a scheme.
func isNATSURL(text string) bool {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	parsed, err := url.Parse(text)
	return err == nil && parsed.Hostname() != "" && isPortOfURL(parsed.Port()) &&
		slices.Contains([]string{"nats", "tls", "ws", "wss"}, parsed.Scheme)
}
