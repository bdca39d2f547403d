package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// startDebug serves profiles of this process at --debug-addr, unless it is empty. stop ends
// all requests.
func startDebug(addr string, log *slog.Logger) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr: %w", err)
	}
	server := &http.Server{Handler: onLoopback(profiles()), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	log.Warn("serving profiles to every user of this machine", "debug", ln.Addr().String())
	return func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}, nil
}

// profiles serves those profiles that contain no secret. Left out are the command line,
// which may contain tokens, and goroutine dumps with the arguments of functions, which
// contain bytes of the ids of pools and leases.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains([]string{"", "0", "1"}, r.FormValue("debug")) {
			http.Error(w, "debug must be 0 or 1: stack dumps with arguments contain secrets", http.StatusForbidden)
			return
		}
		pprof.Index(w, r)
	})
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// onLoopback refuses requests for other hosts: a page in a browser on this machine must
// not get here by a name that resolves to a loopback address.
func onLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !settings.IsLoopback(r.Host) {
			http.Error(w, "ask for a loopback address or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
