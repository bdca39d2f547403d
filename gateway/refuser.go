package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// refusalTime bounds how long a refused client may take to begin a request and to
	// read the answer.
	refusalTime = time.Second

	// maxRefusals is the maximum of refused connections that are open at once, or half
	// of Config.MaxConnections if that is less, since each has a file open.
	maxRefusals = 64

	// refusalsPerIP is the maximum of answers per second to refused connections of one
	// client address.
	refusalsPerIP = 8
)

// refuser answers connections beyond the limits, and closes them. It closes those beyond
// its own limits without an answer, which bounds the cost of a flood.
type refuser struct {
	encrypted bool // whether an answer would need a TLS handshake
	rates     *rateLimiter
	places    chan struct{} // a semaphore
	writing   sync.WaitGroup
	log       *slog.Logger
}

func newRefuser(cfg Config) *refuser {
	return &refuser{
		encrypted: cfg.TLS != nil,
		rates:     newRateLimiter(refusalsPerIP, refusalsPerIP),
		places:    make(chan struct{}, refusalsFor(cfg.MaxConnections)),
		log:       cfg.Logger,
	}
}

// refusalsFor returns how many refused connections may be open at once.
func refusalsFor(maxConnections int) int {
	if maxConnections == 0 {
		return maxRefusals
	}
	return min(max(maxConnections/2, 1), maxRefusals)
}

// refuse answers a connection, and closes it. It does not block.
func (r *refuser) refuse(conn net.Conn, client netip.Prefix, why *wire.Status) {
	if !r.encrypted && !(client.IsValid() && r.rates.decide(client.Addr()).refused) { // a TLS handshake would cost more than serving
		select {
		case r.places <- struct{}{}:
			r.writing.Go(func() {
				defer func() { <-r.places }()
				defer conn.Close()
				r.answer(conn, why)
			})
			return
		default:
		}
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // no states of TCP that wait for the client
	}
	conn.Close()
}

func (r *refuser) answer(conn net.Conn, why *wire.Status) {
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	// Go's client ignores an answer that arrives before it has sent a request.
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return
	}
	id := ops.NewRequestID()
	r.log.LogAttrs(context.Background(), slog.LevelDebug, "connection refused",
		slog.String("limit", why.Name), slog.Int("status", why.Code), slog.String("request_id", id))
	if _, err := io.WriteString(conn, plainRefusal(why, id)); err != nil {
		return
	}
	// Closing the connection with unread data would reset it, and the client might
	// lose the answer.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// plainRefusal returns the answer to a request that the gateway has not read. Its body has
// the fields of errors of /v1, which include those of all other paths.
func plainRefusal(why *wire.Status, requestID string) string {
	body, _ := json.Marshal(wire.Failure{Error: why.Name, Detail: why.Text}) // does not fail for texts
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		headersOfAll+"\r\n"+
		"%s: %s\r\n%s: %s\r\n%s: %d\r\nContent-Length: %d\r\n\r\n%s",
		why.Code, http.StatusText(why.Code), wire.RequestIDHeader, requestID,
		wire.ErrorHeader, why.Name, wire.RetryAfterHeader, why.RetryAfter, len(body), body)
}
