package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
)

// CloseTimeout bounds how long each part of the gateway may take to close.
const CloseTimeout = 10 * time.Second

type Config struct {
	Settings    *settings.Serve
	Environment settings.Environment // names the service manager
	Version     string
	Logger      *slog.Logger
	Stderr      io.Writer // for the stacks after SIGQUIT
}

// ballastSize is the length in bytes of a slice that is never touched, so it takes no memory. The garbage
// collector runs when there is as much garbage as memory in use, which is 8 MB in most gateways: with 32 MB
// more, 64 clients at a time took 0.87 to 0.90 of the CPU over NATS, 0.94 to 0.97 in the library, 0.99 over HTTP.
// A large heap grows by no more than that; with debug.SetGCPercent it would grow by a share of itself.
const ballastSize = 32 << 20

// Run serves until ctx ends or SIGTERM or SIGINT comes, and then drains. A second signal
// skips the drain.
func Run(ctx context.Context, c Config) error {
	defer runtime.KeepAlive(make([]byte, ballastSize))
	defer dumpOnQuit(c.Stderr)()
	stop, hurry, release := stopSignals(ctx, c.Logger)
	defer release()
	err := newServer(c).run(stop, hurry)
	if errors.Is(err, context.Canceled) && stop.Err() != nil {
		return nil // stopped during the start
	}
	return err
}

// server is a gateway. Its fields are set in this order, and closed in the opposite one.
type server struct {
	settings *settings.Serve
	version  string
	log      *slog.Logger
	manager  *serviceManager
	lending  *gateway.Lending // shared by the dialects and the NATS service, as are turns
	turns    *gateway.Turns
	lacks    atomic.Pointer[error] // why there is no store yet

	ln, tcpLn net.Listener // tcpLn is that of --tcp-addr; nil without
	gw        *gateway.Gateway
	serving   bool // HTTP
	running   sync.WaitGroup
	failed    chan error // has the error of a listener
	nats      *backend
	store     *kvslots.Store
	functions *forrst.Server
	tcp       *dflockdtcp.Server // nil without
}

func newServer(c Config) *server {
	s := &server{
		settings: c.Settings, version: c.Version, log: c.Logger, manager: newServiceManager(c.Environment, c.Logger),
		lending: gateway.NewLending(), turns: gateway.NewTurns(), failed: make(chan error, 2),
	}
	s.lending.Waits.Limit(c.Settings.Waits)
	s.lending.MaxWait, s.lending.Tokens = c.Settings.MaxWait, c.Settings.Tokens
	return s
}

// run starts the listener, NATS, the store and the gateway. When stop ends, it stops
// them in the opposite order; when hurry ends, it stops without draining further.
func (s *server) run(stop, hurry context.Context) (err error) {
	defer s.startReloader()()
	if s.ln, err = net.Listen("tcp", s.settings.HTTPAddr); err != nil { // before NATS, since it fails more often
		return fmt.Errorf("HTTP: %w", err)
	}
	defer s.ln.Close()
	if addr := s.settings.TCPAddr; addr != "" { // the kernel takes connections until there is a store
		if s.tcpLn, err = net.Listen("tcp", addr); err != nil {
			return fmt.Errorf("TCP: %w", err)
		}
		defer s.tcpLn.Close()
	}
	stopDebug, err := startDebug(s.settings.DebugAddr, s.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopDebug()) }()
	s.gw = gateway.New(s.httpConfig())
	if s.nats, err = s.openBackend(stop); err != nil {
		return errors.Join(err, s.end(over()))
	}
	defer func() { err = errors.Join(err, s.nats.close()) }()
	return s.nats.orFailure(s.lend, stop, hurry)
}

// lend opens the store on the backend, and serves its pools until stop ends.
func (s *server) lend(stop, hurry context.Context) (err error) {
	defer func() { err = errors.Join(err, s.end(over())) }()
	if err := s.awaitNodes(stop); err != nil {
		return err
	}
	if err := s.openStore(stop); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing(s.store.Close)) }()
	defer s.nats.onFailure(func() { // pending requests are answered, which may wait for the failed server
		_ = s.store.Close(over())
	})()
	s.functions = s.newFunctions()
	defer func() { err = errors.Join(err, closing(s.functions.Close)) }()
	finishers := []gateway.Finisher{s.functions}
	if s.nats.service != nil {
		service, err := s.startService()
		if err != nil {
			return fmt.Errorf("NATS: %w", err)
		}
		defer func() { err = errors.Join(err, closing(service.Close)) }()
		finishers = []gateway.Finisher{service, s.functions} // the service first, since its requests call functions
	}
	if s.tcpLn != nil {
		s.tcp = s.newDflockd()
		finishers = append([]gateway.Finisher{s.tcp}, finishers...)
	}
	if s.settings.PublishEvents {
		defer events.Publish(s.store, s.nats.service).Close()
	}
	s.logListening()
	s.gw.Open(s.opened(finishers))
	s.manager.notify("READY=1", "STATUS=serving HTTP at "+s.ln.Addr().String())
	return s.serve(stop, hurry)
}

// logListening logs the addresses. The message and the field http are a contract.
func (s *server) logListening() {
	attrs := []any{"http", s.ln.Addr().String(), "version", s.version, "sync", s.nats.sync}
	if s.tcp != nil {
		attrs = append(attrs, "tcp", s.tcpLn.Addr().String())
	}
	if s.settings.UI != "off" {
		attrs = append(attrs, "page", s.pageURL())
	}
	if s.nats.server == nil {
		attrs = append(attrs, "nats", s.nats.nc.ConnectedUrlRedacted())
	} else {
		attrs = append(attrs, "data_dir", s.settings.Embedded().DataDir)
		if s.nats.service != nil {
			attrs = append(attrs, "nats", s.nats.server.ClientURL())
		}
	}
	s.log.Info("listening", attrs...)
	if s.nats.server == nil {
		s.log.Warn("whether answers survive a power cut depends on this NATS, which by default flushes every two minutes: " +
			"set its sync_interval to always, or have replicas that do not lose power together")
	}
}

// pageURL returns where a browser on this machine finds the page.
func (s *server) pageURL() string {
	at := s.ln.Addr().(*net.TCPAddr)
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if s.settings.Certificate() != nil {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(at.Port)) + "/"
}

// serve serves HTTP and TCP until stop ends, then drains until hurry ends. If one of the
// listeners fails, serve ends at once with its error.
func (s *server) serve(stop, hurry context.Context) error {
	s.startHTTP()
	if s.tcp != nil {
		s.start("TCP", s.tcp.Serve, s.tcpLn)
	}
	var err error
	select {
	case err = <-s.failed:
		s.manager.notify("STOPPING=1", "STATUS=failed")
		hurry = over()
	case <-stop.Done():
		s.manager.notify("STOPPING=1", "STATUS=draining")
		s.log.Info("draining", "wait_ms", s.settings.DrainWait.Milliseconds())
	}
	return errors.Join(err, s.end(hurry))
}

func (s *server) startHTTP() {
	if !s.serving {
		s.serving = true
		s.start("HTTP", s.gw.Serve, s.ln)
	}
}

func (s *server) start(transport string, serve func(net.Listener) error, ln net.Listener) {
	s.running.Go(func() {
		if err := serve(ln); err != nil {
			s.failed <- fmt.Errorf("%s: %w", transport, err)
		}
	})
}

// end drains the gateway, until hurry ends, if it still serves.
func (s *server) end(hurry context.Context) error {
	if !s.serving {
		return nil
	}
	s.serving = false
	err := s.gw.Drain(hurry)
	s.running.Wait()
	close(s.failed)
	return errors.Join(err, <-s.failed)
}

// over returns a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// closing calls the Close of a part of the server with a new context, since those of run
// have ended.
func closing(close func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	return close(ctx)
}
