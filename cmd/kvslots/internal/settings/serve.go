package settings

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

const replicasFlag = "replicas"

// Serve has the settings of serve. Of the configurations of other packages, the fields here have
// the values of single flags; the methods in serve_configs.go add the rest.
type Serve struct {
	HTTPAddr, TCPAddr, DebugAddr string // "" without
	UI                           string // "read", "admin" or "off": the page for browsers
	LogLevel, LogFormat          string
	NATS                         NATS // to --nats-url; some fields also apply to --nats-addr
	PublishEvents                bool
	Cluster                      Cluster
	Waits                        gateway.Limits
	MaxWait                      time.Duration
	Sessions                     gateway.SessionTimes
	DrainWait                    time.Duration
	Check                        bool
	Replicas                     int // that the bucket must have; 0 without --replicas

	// What is read of files, as it is in force.
	Tokens       *gateway.Tokens // nil without
	Followed     []*Followed
	certificates atomic.Pointer[tls.Config]

	http     gateway.Config
	store    kvslots.Config
	embedded natsembed.Config
	forrst   forrst.Config
	service  natsapi.Config

	token    Token
	tls      keyPair
	clientCA string
	insecure []string // of http, tcp and nats
}

// NewServe declares a flag for each setting, in a block for each topic, and returns the settings. The names
// of the flags and of their environment variables are a contract.
func NewServe(flagSet *pflag.FlagSet) *Serve {
	s, flags := &Serve{}, table{flagSet}
	flags.SortFlags = false

	// HTTP, and the page.
	flags.row("http-addr", address(&s.HTTPAddr, "127.0.0.1:8080"), "listen for HTTP on this address; port 0 picks a free one")
	flags.row("http-allowed-hosts", texts(&s.http.Hosts, "names", checkHost), "names that HTTP requests may have in Host, besides addresses and localhost (comma-separated); checked on loopback without a token, or if given")
	flags.row("http-cors-allowed-origins", texts(&s.http.CORSOrigins, "origins", checkOrigin), "accept requests from web pages of these origins (comma-separated; * means any)")
	flags.row("trusted-proxies", list(&s.http.TrustedProxies, "networks", parseNetwork), "networks of proxies whose X-Forwarded-For or Forwarded names the client (comma-separated addresses or CIDRs)")
	flags.row("ui", Choice(&s.UI, "read", "read", "admin", "off"), "serve browsers a page at / that shows pools, locks and semaphores; admin: with buttons for what operators do")

	// Who may come in, over HTTP and TCP.
	s.token.addFlags(flags, "bearer token that HTTP requests must have, and the first request of a connection at --tcp-addr", "file with bearer tokens, a line TOKEN, NAME read TOKEN, or NAME admin TOKEN for each; those of read change nothing, and the log has the names")
	flags.row("insecure", texts(&s.insecure, "listeners", checkListener), "let these listeners accept every client, including those on other machines: http, tcp, nats (comma-separated)")
	s.tls.addFlags(flags, "file with the certificate of the HTTP listener and of --tcp-addr, which then accept TLS only; read again when it changes")
	flags.row("tls-client-ca", plain(&s.clientCA, ""), "file with certificate authorities, one of which must have issued the certificate of each client over HTTP and at --tcp-addr", needs(" and --tls-key", "tls-cert"))

	// dflockd's TCP protocol.
	flags.row("tcp-addr", address(&s.TCPAddr, ""), "listen for dflockd's TCP protocol on this address, with the token and the certificate of the HTTP listener")

	// How much one client may ask for, and all.
	flags.row("http-rate-limit", Decimal(&s.http.RateLimit, 0.001, 1e6), "HTTP requests a second from each client address; 0 means no limit")
	flags.row("max-connections", maximum(&s.http.MaxConnections, 0), "maximum of connections over HTTP and at --tcp-addr; 0 means what the limit of open files allows")
	flags.row("max-connections-per-ip", maximum(&s.http.MaxConnectionsPerIP, 0), "maximum of such connections of each client address, and of NATS clients at --nats-addr; 0 means half of --max-connections, and of --nats-max-connections")

	// Requests that wait.
	flags.row("max-wait", Seconds(&s.MaxWait, kvslots.DefaultMaxWait, time.Second, MaxDuration), "longest wait for a slot; a larger wait is clamped to it")
	flags.row("resume-grace", Duration(&s.store.ResumeGrace, kvslots.DefaultResumeGrace, 0, kvslots.MaxResumeGrace), "how long a request with an Idempotency-Key keeps its place in line after its client has gone; 0 means not at all")
	flags.row("max-waiters-total", maximum(&s.Waits.Total, 100_000), "maximum of requests that wait at this gateway; 0 means no limit")
	flags.row("max-waiters-per-ip", maximum(&s.Waits.PerIP, 0), "maximum of requests of each client address that wait at this gateway; 0 means no limit")
	flags.row("max-waiters", maximum(&s.store.MaxWaiters, 0), "maximum of requests that wait for each pool, lock or semaphore; 0 means no limit")

	// Leases.
	flags.row("max-ttl", Seconds(&s.store.MaxTTL, kvslots.DefaultMaxTTL, time.Second, MaxDuration), "longest lease; a larger ttl is clamped to it")
	flags.row("default-lease-ttl", Seconds(&s.Sessions.DefaultLeaseTTL, wire.DefaultLeaseTTL, time.Second, MaxDuration), "lease of a lock or semaphore in requests without a ttl")

	// Pools.
	flags.row("max-pools", maximum(&s.store.MaxPools, 0), "maximum of registered pools; 0 means no limit")
	flags.row("max-pools-per-ip", maximum(&s.store.MaxPoolsPerOrigin, 0), "maximum of registered pools of each client address; 0 means no limit")
	flags.row("pool-idle-ttl", Seconds(&s.store.PoolIdle, 0, 0, MaxDuration), "unregister pools that nothing has used for this long; 0 means never")

	// Locks and semaphores.
	flags.row("max-locks", maximum(&s.store.MaxLocks, 0), "maximum of locks and semaphores in use; 0 means no limit")
	flags.row("max-locks-per-session", maximum(&s.store.MaxLocksPerSession, 1024), "maximum of locks and semaphores that each session holds or waits for; 0 means no limit")
	flags.row("max-locks-per-ip", maximum(&s.store.MaxLocksPerOrigin, 16384), "the same of each client address, for all its sessions and its calls of functions together, and those that it has paused; 0 means no limit")

	// Sessions, and what is left of all.
	flags.row("http-session-idle-timeout", Seconds(&s.Sessions.IdleTimeout, wire.DefaultIdleTimeout, time.Second, kvslots.MaxSessionIdle/2), "how often clients must ping their sessions; a session ends after twice this time without a ping")
	flags.row("max-sessions", maximum(&s.store.MaxSessions, 0), "maximum of open sessions; 0 means no limit")
	flags.row("max-sessions-per-ip", maximum(&s.store.MaxSessionsPerOrigin, 16384), "maximum of open sessions of each client address; 0 means no limit")
	flags.row("max-tombstones", maximum(&s.store.MaxTombstones, 200_000), "maximum of keys of pools, names and sessions that have ended and stay for minutes; one client address may leave half of them; 0 means no limit")

	// The embedded NATS server.
	flags.row(dataDirFlag, plain(&s.embedded.DataDir, defaultDataDir), "directory of the embedded NATS server's storage", embedded)
	flags.row("max-store", size(&s.embedded.MaxStore), "bytes that the entries of the embedded NATS server may take, such as 512M or 2G; beyond that, requests that add entries are refused; 0 means that the disk is the limit", embedded)
	flags.row("sync", Choice(&s.embedded.Sync, natsembed.SyncAlways, "always", "interval"), "flush to disk before each answer, or once a second", embedded)

	// Other machines that have copies of it.
	s.Cluster.addFlags(flags)

	// Its clients.
	listener := needs("", natsAddrFlag)
	flags.row(natsAddrFlag, address(&s.embedded.Addr, ""), "accept NATS clients on this address; without it the embedded server has no listener", embedded)
	flags.row("nats-nkeys", texts(&s.embedded.Nkeys, "nkeys", anyText), "accept NATS clients at --nats-addr that hold one of these nkeys (comma-separated public keys)", embedded, listener)
	flags.row("nats-max-connections", Number(&s.embedded.MaxConnections, 0, 0, 1e6), "maximum of NATS clients at --nats-addr; 0 means 1024, or fewer if the limit of open files is low", embedded)

	// A NATS elsewhere.
	external := needs(": at --nats-addr clients may subscribe below _INBOX only", natsURLFlag)
	s.NATS.addFlags(flags, "", "use this NATS instead of embedding one (comma-separated URLs)", ", or of NATS clients at --nats-addr",
		", or those that must have issued the certificates of clients at --nats-addr")
	flags.row("nats-reply-prefixes", texts(&s.service.ReplyPrefixes, "subjects", natsapi.CheckReplyPrefix), "with --nats-url, also send answers to subjects below these, not only below _INBOX and _INBOX_… (comma-separated)", external)
	flags.row("publish-events", toggle(&s.PublishEvents, false), "with --nats-url, publish events on NATS subjects below kvslots.events", external)
	flags.row(replicasFlag, Number(&s.store.Replicas, 1, 1, 5), "replicas of the bucket; more than 1 needs --nats-url")

	// Forrst's functions.
	flags.row("forrst-fn-prefix", checked(&s.forrst.Prefix, "subject", checkPrefix).with(forrst.DefaultPrefix), "call Forrst functions on NATS subjects below this")
	flags.row("forrst-timeout", Duration(&s.forrst.Timeout, forrst.DefaultTimeout, time.Second, time.Hour), "how long a function may take")
	flags.row("forrst-fn-nkeys", texts(&s.embedded.Functions.Nkeys, "nkeys", anyText), "accept function services that hold one of these nkeys at --nats-addr (comma-separated public keys)", embedded, listener)

	// The process.
	flags.row("drain-wait", Duration(&s.DrainWait, 2*time.Second, 0, time.Hour), "keep listening for this long after SIGTERM, and answer 503 to borrowers")
	flags.row("log-level", Choice(&s.LogLevel, "info", "debug", "info", "warn", "error"), "log lines of this level and above")
	flags.row("log-format", Choice(&s.LogFormat, "auto", "auto", "json", "console"), "format of log lines: json, console for people, or auto: console on a terminal, json elsewhere")
	flags.row("debug-addr", loopback(&s.DebugAddr), "serve profiles of this process at this loopback address, to every user of the machine")
	flags.row(configFlag, plain(new(string), ""), "read settings from this file (YAML or JSON); its keys are the flags' names")
	flags.row("check", toggle(&s.Check, false), "check the settings and the files that they name, and end: open no connection, and leave the data directory alone")
	return s
}
