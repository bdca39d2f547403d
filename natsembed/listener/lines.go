package listener

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// clientLine matches the format of a line about a client: the client's address, its
// number, and its name and version, which are quoted.
var clientLine = regexp.MustCompile(`(?s)^\S+ - cid:(\d+)(?: - "(?:[^"\\]|\\.)*")* - (.*)$`)

// kindForm matches what such a line begins with. nats-server's own words come first,
// and text of the client follows a verb, a quote or a punctuation mark.
var kindForm = regexp.MustCompile(`^[A-Za-z]+(?:[ -]+[A-Za-z]+)*`)

// LineAboutClient parses a line of nats-server's log that is about a client: it returns the
// client's number and the kind of the line. The rest, which may quote subjects, ids of pools and
// credentials, must not be logged.
func LineAboutClient(format string, v []any) (number uint64, kind string, ok bool) {
	if strings.HasPrefix(format, "%s - %s") && len(v) > 1 {
		// The client and the text are arguments if nats-server itself limits such lines.
		format = fmt.Sprintf("%s - %s", v[0], v[1])
	}
	found := clientLine.FindStringSubmatch(format)
	if found == nil {
		return 0, "", false
	}
	number, _ = strconv.ParseUint(found[1], 10, 64) // digits; 0 if there are too many
	text, _, _ := strings.Cut(found[2], "%")
	if text == "" && len(v) > 0 {
		text = ownError(fmt.Sprint(v[0]))
	}
	return number, cmp.Or(LineKind(text), otherKinds), true
}

// LineKind returns what a line begins with, in nats-server's own words.
func LineKind(text string) string { return kindForm.FindString(text) }

// ownError returns text if it is one of the errors with which nats-server begins a line.
func ownError(text string) string {
	if text == server.ErrAuthentication.Error() || text == server.ErrMaxPayload.Error() {
		return text
	}
	return ""
}

const (
	// linesEvery is how often a limited line is logged for each kind.
	linesEvery = 10 * time.Second

	// maxLineKinds bounds the number of kinds; nats-server has fewer.
	maxLineKinds = 100
	otherKinds   = "client error"
)

// LineLimit limits lines that any client can cause, for each kind. Its zero value is ready.
type LineLimit struct {
	mu    sync.Mutex
	kinds map[string]*kindLines
}

type kindLines struct {
	held  int // since the last one that was logged
	every rate.Sometimes
}

// Count counts a line. It reports whether to log it, and returns the number of lines of
// its kind since the last one that was logged.
func (c *LineLimit) Count(kind string) (lines int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[kind] == nil && len(c.kinds) >= maxLineKinds {
		kind = otherKinds
	}
	of := c.kinds[kind]
	if of == nil {
		of = &kindLines{every: rate.Sometimes{Interval: linesEvery}}
		if c.kinds == nil {
			c.kinds = map[string]*kindLines{}
		}
		c.kinds[kind] = of
	}
	of.held++
	of.every.Do(func() { lines, of.held, due = of.held, 0, true })
	return lines, due
}
