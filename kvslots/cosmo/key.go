package cosmo

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots"
)

// MaxKey is the maximal length of a key in bytes. With a longer one, the line that
// publishes an entry could exceed 4,096 bytes, at which nats-server closes a connection.
const MaxKey = 3000

// subjectForm matches the subjects to which NATS clients publish: without white space and
// empty tokens. Clients' KV functions accept fewer keys; Cosmo does not use them for slots.
// DEL is left out: nats-server does not index subjects that contain it, so that every
// compare-and-swap on revision 0 succeeds.
var subjectForm = regexp.MustCompile(`^[^\s\v\x00\x7f.]+(\.[^\s\v\x00\x7f.]+)*$`)

var numberForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,3})$`)

// checkKey returns a *kvslots.RangeError unless Ruby and Go workers can share the key: its
// slot keys must be subjects. (So a key may be empty, or end with a dot.) A token that is
// a wildcard is refused: the release of a Ruby worker would free the slots of other keys.
// UTF-8 is needed since releases name the subject in JSON.
func checkKey(key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) || !subjectForm.MatchString(slotKey(key, 0)) || slices.ContainsFunc(strings.Split(key, "."), isWildcard) {
		return &kvslots.RangeError{Field: "key", Range: fmt.Sprintf(
			"up to %d bytes of UTF-8 without white space and DEL; a dot must separate two parts, and no part may be * or >", MaxKey)}
	}
	return nil
}

func isWildcard(token string) bool { return token == "*" || token == ">" }

func slotKey(key string, number int) string { return key + "/" + strconv.Itoa(number) }

func parseSlotKey(slot string) (number int, err error) {
	end := strings.LastIndexByte(slot, '/')
	if end < 0 || !numberForm.MatchString(slot[end+1:]) || checkKey(slot[:end]) != nil {
		return 0, &kvslots.RangeError{Field: "slot", Range: `a slot key such as "mail/0"`}
	}
	return strconv.Atoi(slot[end+1:])
}
