package settings

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// MaxDuration is longer than any useful lease or wait, and does not overflow.
const MaxDuration = 365 * 24 * time.Hour

const publishEventsFlag = "publish-events"

// Serve has the settings of serve. Lists are separated by commas.
type Serve struct {
	HTTPAddr      string
	TLS           ServerTLS
	Token         Token
	ReadToken     Token // of clients that change nothing
	Operators     tokenFile
	httpInsecure  bool
	httpRateLimit float64 // requests a second
	httpRateBurst int
	httpOrigins   string // a list
	httpHosts     string // a list
	httpProxies   string // a list
	UI            string // "read", "admin" or "off": the page for browsers

	TCPAddr     string // "" without
	tcpInsecure bool
	autoRelease bool

	maxConnections      int
	maxConnectionsPerIP share // of connections
	Waits               gateway.Limits
	DrainWait           time.Duration

	DataDir  string
	MaxStore int64 // bytes
	sync     string

	NATS          NATS   // to --nats-url; some fields also apply to --nats-addr
	replyPrefixes string // a list
	PublishEvents bool

	NATSAddr                string
	natsNkeys               string // a list
	natsInsecure            bool
	natsMaxConnections      int
	natsMaxConnectionsPerIP share // of connectionsOfNATS

	functions functions

	store                       kvslots.Config
	locksPerSession, locksPerIP share // of store.MaxLocks
	poolsPerIP                  share // of store.MaxPools
	Replicas                    int   // that the bucket must have; 0 without --replicas
	Sessions                    gateway.SessionTimes

	LogLevel  string
	LogFormat string
	DebugAddr string
}

type functions struct {
	prefix       string
	timeout      time.Duration
	user         string
	password     string // a secret, never logged
	nkeys        string // a list
	forceRelease bool
}

func DefaultServe() *Serve {
	return &Serve{
		HTTPAddr:  "127.0.0.1:8080",
		Token:     Token{tokenFile: tokenFile{flag: TokenFileFlag}, again: true},
		ReadToken: Token{tokenFile: tokenFile{flag: ReadTokenFileFlag}, again: true},
		Operators: tokenFile{flag: TokensFileFlag},
		UI:        "read",

		autoRelease: true,

		DrainWait: 2 * time.Second,
		DataDir:   defaultDataDir,
		sync:      string(natsembed.SyncAlways),
		store:     kvslots.Config{Replicas: 1, MaxTTL: kvslots.DefaultMaxTTL, MaxWait: kvslots.DefaultMaxWait, ResumeGrace: kvslots.DefaultResumeGrace, MaxSessionsPerOrigin: 16384, MaxTombstones: 200_000},
		Sessions:  gateway.SessionTimes{DefaultLeaseTTL: wire.DefaultLeaseTTL, IdleTimeout: wire.DefaultIdleTimeout, MaxIdleTimeout: wire.DefaultMaxIdleTimeout},
		Waits:     gateway.Limits{Total: 100_000},
		functions: functions{prefix: forrst.DefaultPrefix, timeout: forrst.DefaultTimeout, forceRelease: true},

		locksPerSession: share{1024, false}, locksPerIP: share{16384, false},
		maxConnectionsPerIP:     share{50, true},
		natsMaxConnectionsPerIP: share{50, true},

		LogLevel:  "info",
		LogFormat: "auto",
	}
}

// AddFlags declares a flag for each setting. The names of the flags and of their
// environment variables are a contract.
func (s *Serve) AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.Var(address(&s.HTTPAddr), "http-addr", "listen for HTTP on this address; port 0 picks a free one")
	flags.Var(port(&s.HTTPAddr), "http-port", "listen for HTTP on this port of 127.0.0.1, instead of --http-addr")
	s.TLS.addFlags(flags)
	s.Token.addFlags(flags, tokenFlag, "bearer token that HTTP requests must have, and the first request of a connection at --tcp-addr")
	s.ReadToken.addFlags(flags, ReadTokenFlag, "another bearer token, of clients that may read what operators read, statistics and metrics, and change nothing")
	flags.StringVar(&s.Operators.path, TokensFileFlag, "", "file with more bearer tokens, whose names the log has: a line NAME read TOKEN, or NAME admin TOKEN, for each")
	flags.BoolVar(&s.httpInsecure, "http-insecure", s.httpInsecure, "accept every HTTP client, including those on other machines")
	flags.Var(Decimal(&s.httpRateLimit, 0.001, 1e6), "http-rate-limit", "HTTP requests a second from each client address; 0 means no limit")
	flags.Var(Number(&s.httpRateBurst, 0, 1e6), "http-rate-burst", "HTTP requests from each client address at once; 0 means twice --http-rate-limit, which is rounded up to a whole number first")
	flags.Var(origins(&s.httpOrigins), "http-cors-allowed-origins", "accept requests from web pages of these origins (comma-separated; * means any)")
	flags.Var(hostNames(&s.httpHosts), "http-allowed-hosts", "names that HTTP requests may have in Host, besides addresses and localhost (comma-separated); checked on loopback without a token, or if given")
	flags.Var(networks(&s.httpProxies), "trusted-proxies", "networks of proxies whose X-Forwarded-For or Forwarded names the client (comma-separated addresses or CIDRs)")
	flags.Var(Choice(&s.UI, "read", "admin", "off"), "ui", "serve browsers a page at / that shows pools, locks and semaphores; admin: with buttons for what operators do")
	flags.Var(address(&s.TCPAddr), "tcp-addr", "listen for dflockd's TCP protocol on this address, with the token and the certificate of the HTTP listener")
	flags.BoolVar(&s.tcpInsecure, "tcp-insecure", s.tcpInsecure, "accept every client at --tcp-addr, including those on other machines")
	flags.BoolVar(&s.autoRelease, "auto-release-on-disconnect", s.autoRelease, "release what a connection at --tcp-addr holds when it is closed; otherwise it stays until its lease ends")
	flags.Var(Number(&s.maxConnections, 0, math.MaxInt32), "max-connections", "maximum of connections over HTTP and at --tcp-addr; 0 means what the limit of open files allows")
	flags.Var(shareFlag(&s.maxConnectionsPerIP), "max-connections-per-ip", "maximum of such connections of each client address, as a number or as a percentage of --max-connections; 0 means no limit")
	flags.Var(Number(&s.Waits.Total, 0, math.MaxInt32), "max-waiters-total", "maximum of requests that wait at this gateway; 0 means no limit")
	flags.Var(Number(&s.store.MaxPoolWaiters, 0, math.MaxInt32), "max-waiters-per-pool", "maximum of requests that wait for each pool; 0 means no limit")
	flags.Var(Number(&s.Waits.PerIP, 0, math.MaxInt32), "max-waiters-per-ip", "maximum of requests of each client address that wait at this gateway; 0 means no limit")
	flags.Var(Duration(&s.DrainWait, 0, time.Hour), "drain-wait", "keep listening for this long after SIGTERM, and answer 503 to borrowers")
	flags.StringVar(&s.DataDir, dataDirFlag, s.DataDir, "directory of the embedded NATS server's storage")
	flags.Var(size(&s.MaxStore), "max-store", "bytes that the entries of the embedded NATS server may take, such as 512M or 2G; beyond that, requests that add entries are refused; 0 means that the disk is the limit")
	flags.Var(Choice(&s.sync, "always", "interval"), "sync", "flush to disk before each answer, or once a second")
	flags.Var(address(&s.NATSAddr), "nats-addr", "accept NATS clients on this address; without it the embedded server has no listener")
	flags.StringVar(&s.natsNkeys, "nats-nkeys", s.natsNkeys, "accept NATS clients at --nats-addr that hold one of these nkeys (comma-separated public keys)")
	flags.BoolVar(&s.natsInsecure, "nats-insecure", s.natsInsecure, "accept every NATS client at --nats-addr, including those on other machines")
	flags.Var(Number(&s.natsMaxConnections, 0, 1e6), "nats-max-connections", "maximum of NATS clients at --nats-addr; 0 means 1024, or fewer if the limit of open files is low")
	flags.Var(shareFlag(&s.natsMaxConnectionsPerIP), "nats-max-connections-per-ip", "maximum of NATS clients at --nats-addr of each client address, as a number or as a percentage of --nats-max-connections; 0 means no limit")
	s.NATS.addFlags(flags, "", "use this NATS instead of embedding one (comma-separated URLs)", ", or of NATS clients at --nats-addr",
		", or those that must have issued the certificates of clients at --nats-addr")
	flags.Var(replyPrefixes(&s.replyPrefixes), "nats-reply-prefixes", "with --nats-url, also send answers to subjects below these, not only below _INBOX and _INBOX_… (comma-separated)")
	flags.BoolVar(&s.PublishEvents, publishEventsFlag, s.PublishEvents, "with --nats-url, publish events on NATS subjects below kvslots.events")
	flags.Var(Number(&s.store.Replicas, 1, 5), replicasFlag, "replicas of the bucket; more than 1 needs --nats-url")
	flags.Var(Seconds(&s.store.MaxTTL, time.Second, MaxDuration), "max-ttl", "longest lease; a larger ttl is clamped to it")
	flags.Var(Seconds(&s.store.MaxWait, time.Second, MaxDuration), "max-wait", "longest wait for a slot; a larger wait is clamped to it")
	flags.Var(Duration(&s.store.ResumeGrace, 0, kvslots.MaxResumeGrace), "resume-grace", "how long a request with an Idempotency-Key keeps its place in line after its client has gone; 0 means not at all")
	flags.Var(Seconds(&s.Sessions.DefaultLeaseTTL, time.Second, MaxDuration), "default-lease-ttl", "lease of a lock or semaphore in requests without a ttl")
	flags.Var(Seconds(&s.Sessions.IdleTimeout, time.Second, kvslots.MaxSessionIdle/2), "http-session-idle-timeout", "how often clients must ping their sessions; a session ends after twice this time without a ping")
	flags.Var(Seconds(&s.Sessions.MaxIdleTimeout, time.Second, kvslots.MaxSessionIdle/2), "max-session-idle", "longest idle timeout that a client may ask for its session")
	flags.Var(Number(&s.store.MaxPools, 0, math.MaxInt32), "max-pools", "maximum of registered pools; 0 means no limit")
	flags.Var(shareFlag(&s.poolsPerIP), "max-pools-per-ip", "maximum of registered pools of each client address, as a number or as a percentage of --max-pools; 0 means no limit")
	flags.Var(Seconds(&s.store.PoolIdle, 0, MaxDuration), "pool-idle-ttl", "unregister pools that nothing has used for this long; 0 means never")
	flags.Var(Number(&s.store.MaxLocks, 0, math.MaxInt32), "max-locks", "maximum of locks and semaphores in use; 0 means no limit")
	flags.Var(shareFlag(&s.locksPerSession), "max-locks-per-session", "maximum of locks and semaphores that each session holds or waits for, as a number or as a percentage of --max-locks; 0 means no limit")
	flags.Var(shareFlag(&s.locksPerIP), "max-locks-per-ip", "the same of each client address, for all its sessions and its calls of functions together, and those that it has paused; 0 means no limit")
	flags.Var(Number(&s.store.MaxWaiters, 0, math.MaxInt32), "max-waiters", "maximum of requests that wait for each lock or semaphore; 0 means no limit")
	flags.Var(Number(&s.store.MaxSessions, 0, math.MaxInt32), "max-sessions", "maximum of open sessions; 0 means no limit")
	flags.Var(Number(&s.store.MaxSessionsPerOrigin, 0, math.MaxInt32), "max-sessions-per-ip", "maximum of open sessions of each client address; 0 means no limit")
	flags.Var(Number(&s.store.MaxTombstones, 0, math.MaxInt32), "max-tombstones", "maximum of keys of pools, names and sessions that have ended and stay for minutes; one client address may leave half of them; 0 means no limit")
	flags.Var(subjectPrefix(&s.functions.prefix), "forrst-fn-prefix", "call Forrst functions on NATS subjects below this")
	flags.Var(Duration(&s.functions.timeout, time.Second, time.Hour), "forrst-timeout", "how long a function may take")
	flags.StringVar(&s.functions.user, "forrst-fn-user", s.functions.user, "user of function services at --nats-addr")
	flags.StringVar(&s.functions.password, "forrst-fn-password", s.functions.password, "the user's password; better given as KVSLOTS_FORRST_FN_PASSWORD")
	flags.StringVar(&s.functions.nkeys, "forrst-fn-nkeys", s.functions.nkeys, "accept function services that hold one of these nkeys at --nats-addr (comma-separated public keys)")
	flags.BoolVar(&s.functions.forceRelease, "forrst-force-release", s.functions.forceRelease, "serve Forrst's force-release")
	flags.Var(Choice(&s.LogLevel, "debug", "info", "warn", "error"), "log-level", "log lines of this level and above")
	flags.Var(Choice(&s.LogFormat, "auto", "json", "console"), "log-format", "format of log lines: json, console for people, or auto: console on a terminal, json elsewhere")
	flags.Var(loopback(&s.DebugAddr), "debug-addr", "serve profiles of this process at this loopback address, to every user of the machine")
	flags.String(configFlag, "", "read settings from this file (YAML, TOML or JSON); its keys are the flags' names")
}
