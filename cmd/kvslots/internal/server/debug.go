package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// startDebug serves profiles of this process at --debug-addr, unless it is empty. They have no secrets;
// the text of goroutines would have bytes of ids, and the command line tokens.
func startDebug(addr string, log *slog.Logger) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr: %w", err)
	}
	mux := http.NewServeMux()
	for _, name := range []string{"heap", "allocs", "goroutine"} {
		mux.HandleFunc("GET /debug/pprof/"+name, func(w http.ResponseWriter, _ *http.Request) { _ = pprof.Lookup(name).WriteTo(w, 0) })
	}
	mux.HandleFunc("GET /debug/pprof/profile", httppprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", httppprof.Trace)
	server := &http.Server{Handler: onLoopback(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ln) }()
	log.Warn("serving profiles to every user of this machine", "debug", ln.Addr().String())
	return server.Close, nil
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
