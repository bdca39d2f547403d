package listener

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
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
	return number, cmp.Or(kindForm.FindString(text), "client error"), true
}

// ownError returns text if it is one of the errors with which nats-server begins a line.
func ownError(text string) string {
	if text == server.ErrAuthentication.Error() || text == server.ErrMaxPayload.Error() {
		return text
	}
	return ""
}
