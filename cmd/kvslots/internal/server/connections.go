package server

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// noBuffer makes publishing fail while disconnected. An answer that is sent after a
// reconnect would promise time of its lease that is already over.
var noBuffer = nats.ReconnectBufSize(-1)

// logConnection returns options that log changes of a connection's state, with the name
// that the connection has in the metrics.
func logConnection(log *slog.Logger, name string) []nats.Option {
	log = log.With("connection", name)
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil means that this process has closed it
				log.Warn("NATS disconnected", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS reconnected", "nats", nc.ConnectedAddr()) // "pipe" within the process
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS error", "error", withoutInboxes(err.Error()))
		}),
	}
}

const (
	// While NATS does not permit a subscription, the connection subscribes again after
	// minResubscribe, then after twice as long each time, up to maxResubscribe.
	minResubscribe = time.Second
	maxResubscribe = time.Minute
)

// resubscribe returns an option, which must follow those of logConnection, for a connection
// that subscribes again when NATS has dropped a subscription because its permission was
// taken away. nats.go does that only when it reconnects, which loses messages on their way
// to this connection, and makes publishing fail for some milliseconds. Therefore the pause
// grows: a subscription that is never permitted must not disturb the others. The store
// does the same for the bucket's connection, when it hears nothing.
func resubscribe(log *slog.Logger, name string) nats.Option {
	return func(o *nats.Options) error {
		var next time.Time // the last reconnect, which may be yet to come
		pause, logged := minResubscribe, o.AsyncErrorCB
		o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) { // called in one goroutine
			logged(nc, sub, err)
			denied := errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to")
			if !denied || time.Now().Before(next) {
				return
			}
			if pause = min(2*pause, maxResubscribe); time.Since(next) > maxResubscribe { // a new loss
				pause = minResubscribe
			}
			next = time.Now().Add(pause)
			log.Error("NATS denies subscriptions: permit them to the gateway's user; subscribing again after a pause", "connection", name, "pause_ms", pause.Milliseconds())
			time.AfterFunc(pause, func() { _ = nc.ForceReconnect() })
		}
		return nil
	}
}

var quotedSubject = regexp.MustCompile(`"[^" ]+"`)

// withoutInboxes cuts off the subjects that an error of NATS quotes after their first
// token: the rest of an inbox is random, so that no other client can guess it, and so is
// that of the subject for confirmations. Other subjects of the service, and those of
// JetStream, which an operator may have to permit, have no secrets.
func withoutInboxes(text string) string {
	return quotedSubject.ReplaceAllStringFunc(text, func(quoted string) string {
		if strings.HasPrefix(quoted, `"`+subjects.Confirm) {
			return `"` + subjects.Confirm + `…"`
		}
		first, _, more := strings.Cut(quoted, ".")
		if !more || strings.HasPrefix(first, `"$`) || first == `"`+subjects.Service {
			return quoted
		}
		return first + `.…"`
	})
}
