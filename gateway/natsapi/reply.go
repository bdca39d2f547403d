package natsapi

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// refusalsEvery is how often refused reply subjects are logged at most.
const refusalsEvery = time.Minute

// replies decides to which reply subjects the service answers.
//
// A server asks nobody's permission for a reply subject, so a requester could
// have the service write where only the service may: to the bucket, to JetStream
// and to other services, when all are in one account. A list of what is
// forbidden could not be complete. So this is the list of what is allowed.
type replies struct {
	further []string // prefixes, beside those of every client
	log     zerolog.Logger

	mu     sync.Mutex
	count  int // of refused ones since the last was logged
	logged time.Time
}

// mayGoTo reports whether a request with this reply subject is served. Without
// one there is no answer, and no harm.
func (r *replies) mayGoTo(reply string) bool {
	if reply == "" || r.allowed(reply) {
		return true
	}
	r.refused(time.Now())
	return false
}

func (r *replies) allowed(reply string) bool {
	if !literal(reply) {
		return false
	}
	first, _, more := strings.Cut(reply, ".")
	if !more {
		return false
	}
	if first == subjects.Inbox || strings.HasPrefix(first, subjects.Inbox+"_") || first == subjects.Import {
		return true
	}
	for _, prefix := range r.further {
		if strings.HasPrefix(reply, prefix+".") {
			return true
		}
	}
	return false
}

// literal reports whether a subject can be published to: words that are not
// empty, without wildcards and white space.
func literal(subject string) bool {
	for word := range strings.SplitSeq(subject, ".") {
		if word == "" || strings.ContainsAny(word, "*> \t\r\n") {
			return false
		}
	}
	return true
}

// refused logs, since a client with an inbox prefix of its own would otherwise
// wait for answers in vain. The subject is the requester's, and stays out.
func (r *replies) refused(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalsEvery {
		return
	}
	r.log.Warn().Int("requests", r.count).
		Msg("requests dropped: their reply subject is no inbox; clients with an inbox prefix of their own need it among the reply prefixes")
	r.count, r.logged = 0, now
}

// CheckReplyPrefix reports what is wrong with a prefix of Config.ReplyPrefixes:
// it must be a subject without wildcards, in which neither servers nor this
// service give the first word a meaning.
func CheckReplyPrefix(prefix string) error {
	first, _, _ := strings.Cut(prefix, ".")
	switch {
	case !literal(prefix):
		return fmt.Errorf("%q must be words separated by dots, without wildcards and white space", prefix)
	case strings.HasPrefix(first, "$"), first == "_GR_", first == subjects.Import, first == subjects.Service:
		return fmt.Errorf("%q must not begin with %s: answers there would do harm", prefix, first)
	}
	return nil
}
