package natsembed

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// Functions configures which clients of the listener may serve functions, that is,
// subscribe to the subjects below a prefix and answer the requests that arrive there.
//
// If Nkeys (public keys of users) are set, clients that connect with one of them may serve
// functions, and nothing else. If none is set, every client may serve functions at a listener without any authentication, and no
// client at any other listener.
type Functions struct {
	Prefix string // of the subjects, without the final dot; "" means no functions
	Nkeys  []string

	// ReplyTime is how long a function may take to answer; 0 means 2 minutes.
	ReplyTime time.Duration
}

func (c Config) validateFunctions() error {
	f := c.Functions
	switch {
	case f.Prefix == "" && len(f.Nkeys) > 0:
		return errors.New("credentials of functions need a subject prefix")
	case f.Prefix == "":
		return nil
	case !isPrefix(f.Prefix):
		return errors.New("the prefix of functions must be words of A-Z, a-z, 0-9, - and _ with dots between them, and must not begin with kvslots or _")
	case c.Addr == "" && len(f.Nkeys) > 0:
		return errors.New("credentials of functions need a listener")
	}
	for _, key := range f.Nkeys {
		if !nkeys.IsValidPublicUserKey(key) {
			return errors.New("nkeys of functions must be public keys of users, which begin with U")
		}
		if slices.Contains(c.Nkeys, key) {
			return errors.New("functions and clients must have different nkeys")
		}
	}
	return nil
}

// isPrefix reports whether text can be the prefix of functions: subjects below it are
// neither subjects of the gateways' service nor inboxes.
func isPrefix(text string) bool {
	first, _, _ := strings.Cut(text, ".")
	return len(text) <= 100 && prefixForm.MatchString(text) && first != subjects.Service
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9-][\w-]*(\.[\w-]+)*$`)

// function returns the user of a client that serves functions, or nil unless the client holds one of their nkeys.
func (a *authenticator) function(key string) *server.User {
	f := a.cfg.Functions
	if key == "" || !slices.Contains(f.Nkeys, key) {
		return nil
	}
	nothing := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{}},
		Subscribe: &server.SubjectPermission{},
	}
	return &server.User{Account: a.clients, Permissions: f.allow(nothing)}
}

func (f Functions) allow(p *server.Permissions) *server.Permissions {
	p.Subscribe.Allow = append(p.Subscribe.Allow, f.Prefix+".>")
	expires := cmp.Or(f.ReplyTime, server.DEFAULT_ALLOW_RESPONSE_EXPIRATION)
	p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: expires}
	return p
}

func (c Config) functionsAreOpen() bool {
	return c.Functions.Prefix != "" && len(c.Functions.Nkeys) == 0 && !c.authenticates()
}
