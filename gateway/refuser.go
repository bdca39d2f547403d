package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// refusalTime bounds how long a refused client may take for a TLS handshake and a request.
	refusalTime = time.Second

	// maxRefusals is the maximum of refused connections that are open at once, or half
	// of Config.MaxConnections if that is less, since each has a file open.
	maxRefusals = 64

	// refusalsPerIP is the maximum per second of refused connections of one client address
	// that are read.
	refusalsPerIP = 8
)

// refuser bounds how many of the connections beyond the limits are read: to answer why they are
// refused, and to answer probes, since a supervisor would otherwise end a process that serves as
// many clients as it can.
type refuser struct {
	rates  *rateLimiter
	places chan struct{} // a semaphore
}

func newRefuser(cfg Config) *refuser {
	return &refuser{
		rates:  newRateLimiter(refusalsPerIP, refusalsPerIP),
		places: make(chan struct{}, refusalsFor(cfg.MaxConnections)),
	}
}

// refusalsFor returns how many refused connections may be open at once.
func refusalsFor(maxConnections int) int {
	if maxConnections == 0 {
		return maxRefusals
	}
	return min(max(maxConnections/2, 1), maxRefusals)
}

// read reports whether a refused connection may be read. The caller must then call done once.
func (r *refuser) read(client netip.Prefix) bool {
	if client.IsValid() && r.rates.decide(client.Addr()).refused {
		return false
	}
	select {
	case r.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *refuser) done() { <-r.places }

// reset closes a connection without an answer, and without states of TCP that wait for the client.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// SetReadDeadline sets a deadline, or that of a refused connection if that is earlier.
func (c *countedConn) SetReadDeadline(at time.Time) error {
	if c.refusal != nil && (at.IsZero() || at.After(c.until)) {
		at = c.until
	}
	return c.Conn.SetReadDeadline(at)
}

// admitConnection answers a request over a connection beyond the limits, except one for a probe.
// The body has the fields of errors of /v1, which include those of all other paths.
func (g *Gateway) admitConnection(w http.ResponseWriter, r *http.Request) bool {
	conn, _ := r.Context().Value(countedKey{}).(*countedConn)
	if conn == nil || conn.refusal == nil {
		return true
	}
	w.Header().Set("Connection", "close")
	if reads(r, probes) {
		return true
	}
	why := conn.refusal
	g.metrics.failures.WithLabelValues(why.Name).Inc()
	w.Header().Set(wire.ErrorHeader, why.Name)
	w.Header().Set(wire.RetryAfterHeader, strconv.Itoa(why.RetryAfter))
	_ = jsonhttp.Answer(w, why.Code, wire.Failure{Error: why.Name, Detail: why.Text})
	return false
}
