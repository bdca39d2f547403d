package natsembed

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Functions says which clients of the listener may serve functions: subscribe to
// the subjects below a prefix, answer what arrives there, and nothing else.
//
// With User and Password, or Nkeys (public keys of users), they are those that
// connect with one of these; they are no ordinary clients then. Without any, every
// client may serve functions, if the listener asks for no credentials at all;
// otherwise no client may.
type Functions struct {
	Prefix         string // of the subjects, without the dot at its end; "" for no functions
	User, Password string
	Nkeys          []string

	// ReplyTime is how long a function may take to answer. 0 means 2 minutes.
	ReplyTime time.Duration
}

// validateFunctions reports what is wrong. No error repeats a password.
func (c Config) validateFunctions() error {
	f := c.Functions
	switch {
	case f.Prefix == "" && (f.User != "" || f.Password != "" || len(f.Nkeys) > 0):
		return errors.New("credentials of functions need a prefix of their subjects")
	case f.Prefix == "":
		return nil
	case !isPrefix(f.Prefix):
		return errors.New("the prefix of functions must be words of A-Z, a-z, 0-9, - and _ with dots between them, and not begin with kvslots or an inbox")
	case c.Addr == "" && f.asksForSecret():
		return errors.New("credentials of functions need a listener")
	case (f.User == "") != (f.Password == ""):
		return errors.New("user and password of functions go together")
	case f.User != "" && f.User == c.User:
		return errors.New("functions need another user than clients")
	}
	for _, key := range f.Nkeys {
		if !nkeys.IsValidPublicUserKey(key) {
			return errors.New("nkeys of functions must be public keys of users, which begin with U")
		}
		if slices.Contains(c.Nkeys, key) {
			return errors.New("functions need other nkeys than clients")
		}
	}
	return nil
}

func (f Functions) asksForSecret() bool { return f.User != "" || len(f.Nkeys) > 0 }

// isPrefix accepts what is a subject of the functions' own: it leads neither to
// requests of other clients nor to their inboxes.
func isPrefix(text string) bool {
	words := strings.Split(text, ".")
	for _, word := range words {
		if word == "" || strings.ContainsFunc(word, notInWord) {
			return false
		}
	}
	return len(text) <= 100 && words[0] != subjects.Service && !strings.HasPrefix(words[0], "_")
}

func notInWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// function is the user of a client that said it serves functions; ok reports
// whether the name it said is a function's. A wrong password does not make an
// ordinary client of it.
func (d *door) function(said *server.ClientOpts, key string) (user *server.User, ok bool) {
	f := d.cfg.Functions
	switch {
	case f.User != "" && equal(said.Username, f.User):
		if !equal(said.Password, f.Password) {
			return nil, true
		}
	case key != "" && slices.Contains(f.Nkeys, key):
	default:
		return nil, false
	}
	nothing := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{}},
		Subscribe: &server.SubjectPermission{},
	}
	return &server.User{Account: d.clients, Permissions: f.allow(nothing)}, true
}

// allow adds to permissions that functions are served.
func (f Functions) allow(p *server.Permissions) *server.Permissions {
	p.Subscribe.Allow = append(p.Subscribe.Allow, f.Prefix+".>")
	expires := f.ReplyTime
	if expires == 0 {
		expires = server.DEFAULT_ALLOW_RESPONSE_EXPIRATION
	}
	p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: expires}
	return p
}

// functionsAreOpen reports whether every client may serve functions.
func (c Config) functionsAreOpen() bool {
	return c.Functions.Prefix != "" && !c.Functions.asksForSecret() && !c.authenticates()
}
