package delivery

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// refusalsEvery is how often refused reply subjects are logged at most.
const refusalsEvery = time.Minute

// replies decides to which reply subjects the service answers.
//
// A server does not check whether a client may publish to the reply subject of its
// request. If the client and the service are in one account, the client could thus make
// the service publish where only the service may: to the bucket, to JetStream and to other
// services. A list of forbidden subjects could not be complete, so replies has a list of
// allowed ones.
type replies struct {
	own     string   // the inbox prefix of the service's connection, which is not allowed
	further []string // allowed prefixes, beside those of every client
	log     *slog.Logger

	logged rate.Sometimes // for each refused request
}

// mayGoTo reports whether a request with this reply subject is served. A request without
// one gets no answer, and is allowed.
func (r *replies) mayGoTo(reply string) bool {
	if reply == "" || r.allowed(reply) {
		return true
	}
	r.logged.Do(r.logRefused)
	return false
}

func (r *replies) allowed(reply string) bool {
	if !literal(reply) || below(reply, subjects.Gateway) || r.own != subjects.Inbox && below(reply, r.own) {
		return false
	}
	first, _, more := strings.Cut(reply, ".")
	if !more {
		return false
	}
	if first == subjects.Inbox || isNamedInbox(first) || first == subjects.Import {
		return true
	}
	for _, prefix := range r.further {
		if below(reply, prefix) {
			return true
		}
	}
	return false
}

// isNamedInbox reports whether the first token of a subject is _INBOX_<anything>, the
// usual prefix of a client with inboxes of its own.
func isNamedInbox(first string) bool { return strings.HasPrefix(first, subjects.Inbox+"_") }

func below(subject, prefix string) bool {
	rest, ok := strings.CutPrefix(subject, prefix)
	return ok && strings.HasPrefix(rest, ".")
}

// literal reports whether a subject can be published to: its tokens are not empty, and
// have no wildcards and no white space.
func literal(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") {
			return false
		}
	}
	return true
}

// noInbox is ClientOf all requests without a reply subject.
const noInbox = " "

// ClientOf returns the key of a client that only its inbox identifies, from the reply subject
// of a request that may be served. Of a named inbox that is the first token; otherwise it is everything but
// the last token, which differs from request to request.
func ClientOf(reply string) string {
	if reply == "" {
		return noInbox
	}
	if first, _, _ := strings.Cut(reply, "."); isNamedInbox(first) {
		return first
	}
	return reply[:strings.LastIndexByte(reply, '.')] // allowed requires a dot
}

// logRefused logs that requests are refused, since a client with another inbox prefix waits for
// answers in vain. It does not log the subject, which the client chose.
func (r *replies) logRefused() {
	r.log.Warn("requests dropped: their reply subject is no inbox; clients with an inbox prefix of their own need it among the reply prefixes")
}

// CheckReplyPrefix returns an error if prefix cannot be one of Config.ReplyPrefixes: it
// must be a subject without wildcards, and servers and gateways must not give its first
// token a meaning.
func CheckReplyPrefix(prefix string) error {
	first, _, _ := strings.Cut(prefix, ".")
	switch {
	case !literal(prefix):
		return fmt.Errorf("%q must be tokens separated by dots, without wildcards and white space", prefix)
	case strings.HasPrefix(first, "$"), first == "_GR_", first == subjects.Import, first == subjects.Service, first == subjects.Gateway:
		return fmt.Errorf("%q must not begin with %s: answers there would do harm", prefix, first)
	}
	return nil
}
