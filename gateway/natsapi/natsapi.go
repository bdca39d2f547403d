package natsapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi/internal/delivery"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const description = "Slots of pools, lent for a bounded time"

// Config configures a Service.
type Config struct {
	// Pools performs the operations on pools, such as a *kvslots.Store. Lending is
	// the *gateway.Lending that all transports of the gateway share.
	Pools   ops.Pools
	Lending *ops.Lending

	// Sessions performs the operations on sessions, locks and semaphores, such as a
	// *kvslots.Store; if it is nil, the service does not have these operations. They need
	// Turns, the *gateway.Turns that all transports share, and SessionTimes, a
	// gateway.SessionTimes.
	Sessions ops.Sessions
	Turns    *ops.Turns
	ops.SessionTimes

	// ReplyPrefixes are prefixes of further reply subjects to which the service
	// answers, for clients with a custom inbox prefix. It always answers below
	// _INBOX and _INBOX_<anything>, and below _R_, which a server substitutes for
	// them in requests between accounts. It never answers below _KVSLOTS, nor to
	// the inboxes of its own connection. CheckReplyPrefix must accept each prefix.
	ReplyPrefixes []string

	// Calls answers calls of functions, such as a *forrst.Server. If it is nil, the service
	// does not have them.
	Calls ops.Functions

	// Tokens are the *gateway.Tokens of which requests of operators need one: those for the list
	// of pools, about a pool by its hash, and those that change something about a lock or a
	// semaphore. nil means that they need none.
	Tokens *ops.Tokens

	// Version is the version in the answers to PING and INFO. If it is not a semantic
	// version, it is appended to 0.0.0.
	Version string

	// MaxBorrows is the maximum of borrows that are open at once, nearly all of which
	// wait. The service answers 503 to further ones. The same maximum applies
	// separately to requests of sessions that may wait, and to calls. One client may use a quarter of it, and so
	// may the requests for one pool or lock. 0 means DefaultMaxBorrows.
	MaxBorrows int

	// Listener is the server to which the clients connect, such as natsembed.Server.Clients.
	// Sessions, pools, and locks of calls then count for the address of the connection that
	// receives the answer, as over HTTP. If Listener is nil, as on a server of another process,
	// they count for the inbox that the client names, which it may make up.
	Listener Listener

	// VerbsPerSecond is the maximal rate of answers to requests to $SRV. The service
	// drops further ones. 0 means DefaultVerbsPerSecond.
	VerbsPerSecond float64

	// Logger receives the errors of requests, without ids. nil means no log.
	Logger *slog.Logger
}

const (
	// DefaultMaxBorrows is Config.MaxBorrows when it is 0.
	DefaultMaxBorrows = 16384

	// DefaultVerbsPerSecond is Config.VerbsPerSecond when it is 0. An answer to STATS
	// has 5 KB, and may go to many subscriptions.
	DefaultVerbsPerSecond = 10

	// verbsAtOnce is the burst above VerbsPerSecond.
	verbsAtOnce = 50

	// maxOthers is the maximum of other open requests, which wait for the store only.
	maxOthers = 4096

	// startTimeout bounds the round trip at the start.
	startTimeout = 10 * time.Second

	// drainTimeout bounds the round trip at the end.
	drainTimeout = time.Second
)

// CheckReplyPrefix returns an error if prefix cannot be one of Config.ReplyPrefixes: it
// must be a subject without wildcards, and servers and gateways must not give its first
// token a meaning.
func CheckReplyPrefix(prefix string) error { return delivery.CheckReplyPrefix(prefix) }

// Service answers requests until Close.
type Service struct {
	nc  *nats.Conn
	ops ops.Service
	log *slog.Logger

	tokens *ops.Tokens

	identity     micro.ServiceIdentity
	started      time.Time
	listed       []endpoint // all, in the order of INFO and STATS
	sender       *delivery.Sender
	requests     *requests
	counters     counters
	addresses    *addresses    // nil without a Listener
	verbLimit    *rate.Limiter // of requests to $SRV
	borrows      *room         // of pools
	locks        *room         // requests of sessions that may wait
	waitingCalls *room
	others       *room // requests that do not wait in line

	mu     sync.Mutex // guards subs and closed, and tasks.Add against tasks.Wait
	subs   []*nats.Subscription
	closed bool
	tasks  sync.WaitGroup
	cancel context.CancelFunc
	ctx    context.Context // of the requests that are under way
}

// Start starts a Service on nc. The caller must close nc only after the Service. nc should
// serve nothing else, and have no reconnect buffer, since a lease in an answer that is sent
// late is shorter than the answer says. Its inboxes should be below a prefix to which
// clients cannot subscribe, such as _KVSLOTS.<random>.
func Start(nc *nats.Conn, cfg Config) (*Service, error) {
	for _, prefix := range cfg.ReplyPrefixes {
		if err := delivery.CheckReplyPrefix(prefix); err != nil {
			return nil, err
		}
	}
	cfg.MaxBorrows = cmp.Or(cfg.MaxBorrows, DefaultMaxBorrows)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Service{
		nc: nc, log: cfg.Logger, tokens: cfg.Tokens,
		ops: ops.Service{
			Pools: cfg.Pools, Operator: cfg.Pools, Sessions: cfg.Sessions, Lending: cfg.Lending, Turns: cfg.Turns, Events: cfg.Lending.Events(ops.APINATS),
			SessionTimes: cfg.SessionTimes, Functions: cfg.Calls, Log: cfg.Logger,
		},
		requests: newRequests(time.Now), verbLimit: rate.NewLimiter(rate.Limit(cmp.Or(cfg.VerbsPerSecond, DefaultVerbsPerSecond)), verbsAtOnce),
	}
	sending := delivery.Config{ReplyPrefixes: cfg.ReplyPrefixes, Logger: cfg.Logger}
	if cfg.Listener != nil {
		s.addresses = &addresses{listener: cfg.Listener}
		if cfg.Listener.ClientsReply() {
			sending.Listened = cfg.Listener.Listened
		}
	}
	for _, waiting := range []**room{&s.borrows, &s.locks, &s.waitingCalls} {
		*waiting = newRoom(cfg.MaxBorrows)
	}
	s.others = newRoom(maxOthers)
	s.listed = s.endpoints()
	s.counters = newCounters(s.listed)
	s.identity = newIdentity(cfg.Version)
	s.started = time.Now().UTC()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(sending); err != nil {
		s.cancel()
		_ = s.Close(s.ctx)
		return nil, err
	}
	return s, nil
}

func (s *Service) start(sending delivery.Config) (err error) {
	answer := &request{} // to a confirmation
	if sending.Confirmed, err = answer.message(&ops.Reply{}); err != nil {
		return err
	}
	notHeld := wire.StatusOf(kvslots.ErrNotHeld)
	if sending.Refused, err = answer.message(&ops.Reply{Status: notHeld, Body: notHeld.Failure()}); err != nil {
		return err
	}
	if s.sender, err = delivery.Start(s.nc, sending); err != nil {
		return err
	}
	if err := s.subscribeEndpoints(); err != nil {
		return err
	}
	if err := s.subscribeVerbs(); err != nil {
		return err
	}
	return s.nc.FlushTimeout(startTimeout) // the server knows the subscriptions now
}

// Close stops receiving requests, and waits until pending ones are answered. When ctx ends
// first, Close cancels them. Lending should have been stopped before, since waiting borrows
// do not end otherwise.
func (s *Service) Close(ctx context.Context) error {
	stopped := s.drain() // other gateways get the requests from here on
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	defer context.AfterFunc(ctx, s.cancel)()
	s.tasks.Wait()
	s.stop()
	return stopped
}

// Finish stops receiving requests, which other gateways then receive. Pending requests
// continue until Close.
func (s *Service) Finish(context.Context) { _ = s.drain() }

// drain ends the subscriptions once they have delivered what has arrived. Repeated calls
// do nothing.
func (s *Service) drain() (err error) {
	s.mu.Lock()
	subs := s.subs
	s.subs = nil
	s.mu.Unlock()
	for _, sub := range subs {
		if e := sub.Drain(); e != nil && !errors.Is(e, nats.ErrConnectionClosed) {
			err = errors.Join(err, e)
		}
	}
	if len(subs) > 0 && s.nc.IsConnected() {
		_ = s.nc.FlushTimeout(drainTimeout) // the server has ended them
	}
	return err
}

func (s *Service) stop() {
	s.cancel()
	_ = s.drain()
	if s.sender != nil {
		s.sender.Close()
	}
}
