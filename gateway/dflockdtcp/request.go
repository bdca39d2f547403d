package dflockdtcp

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// request is what a client sends: a line with the command, one with the key, and one with
// the arguments.
type request struct{ command, key, args string }

// receive returns the next request. The errors are those of input.line, and errForeign for the
// first line of a client of another protocol. Nothing of such a client may be served: a web page
// of any origin can send lines of its choice to this port, in the body of an HTTP request.
func (in *input) receive() (r request, err error) {
	most := maxLine
	if !in.begun {
		most = len("stats") // no command is longer
	}
	r.command, err = in.line(most)
	switch {
	case !in.begun && (errors.Is(err, errLineTooLong) || err == nil && !known(r.command)):
		return request{}, errForeign
	case err != nil:
		return request{}, err
	}
	in.begun = true
	if r.key, err = in.line(maxLine); err != nil {
		return request{}, err
	}
	most = maxLine
	if r.command == "auth" {
		most = maxToken
	}
	r.args, err = in.line(most)
	return r, err
}

func known(name string) bool {
	switch name {
	case "auth", "ping", "stats":
		return true
	}
	return commands[name] != nil
}

// isForeign reports whether a line is of an HTTP request. No request of the protocol has such a
// line: there is no white space in a key, and no letter in arguments.
func isForeign(line string) bool {
	if strings.Contains(line, " HTTP/1.") {
		return true
	}
	name, _, found := strings.Cut(line, ": ")
	return found && (strings.EqualFold(name, "host") || strings.EqualFold(name, "origin"))
}

type command struct {
	*ops.Operation
	kind     kvslots.Kind
	args     []argument
	optional bool // the last argument may be absent
	takes    bool // needs the connection's session
	waits    bool // waits for what the session has enqueued for
}

var commands = map[string]*command{
	"l": newCommand(kvslots.KindLock, subjects.Acquire, timeout, lease),
	"e": newCommand(kvslots.KindLock, subjects.Enqueue, lease),
	"w": newCommand(kvslots.KindLock, subjects.Wait, timeout),
	"r": newCommand(kvslots.KindLock, subjects.Release, token),
	"n": newCommand(kvslots.KindLock, subjects.Renew, token, lease),

	"sl": newCommand(kvslots.KindSemaphore, subjects.Acquire, timeout, limit, lease),
	"se": newCommand(kvslots.KindSemaphore, subjects.Enqueue, limit, lease),
	"sw": newCommand(kvslots.KindSemaphore, subjects.Wait, timeout),
	"sr": newCommand(kvslots.KindSemaphore, subjects.Release, token),
	"sn": newCommand(kvslots.KindSemaphore, subjects.Renew, token, lease),
}

func newCommand(kind kvslots.Kind, name string, args ...argument) *command {
	op := ops.OfResource(kind, name)
	return &command{
		Operation: op, kind: kind, args: args, optional: args[len(args)-1] == lease,
		takes: op.Grants, waits: name == subjects.Wait,
	}
}

type argument int

const (
	timeout argument = iota
	limit
	lease
	token
)

var errMalformed = errors.New("malformed request")

func (c *command) parse(r request) (wire.Params, error) {
	p := wire.Params{Key: r.key, Kind: c.kind}
	if err := wire.CheckKey(r.key); err != nil {
		return p, err
	}
	words := strings.Fields(r.args)
	if len(words) != len(c.args) && !(c.optional && len(words) == len(c.args)-1) {
		return p, errMalformed
	}
	for i, word := range words {
		if err := c.args[i].set(&p, word); err != nil {
			return p, err
		}
	}
	return p, nil
}

// maxSeconds is the longest time, which is clamped to the store's maxima.
const maxSeconds = int64(365 * 24 * time.Hour / time.Second)

func (a argument) set(p *wire.Params, word string) error {
	if a == token {
		if p.Token = word; !wire.IsToken(word) {
			return errMalformed
		}
		return nil
	}
	number, err := strconv.ParseUint(word, 10, 63)
	if err != nil {
		return errMalformed
	}
	seconds := time.Duration(min(int64(number), maxSeconds)) * time.Second
	switch {
	case a == timeout:
		p.Wait = seconds
	case a == lease && number >= 1:
		p.TTL = seconds
	case a == limit && number >= 1 && number <= kvslots.MaxSemaphoreLimit:
		p.Limit = int(number)
	default:
		return errMalformed
	}
	return nil
}
