package wire

import (
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	// DefaultLeaseTTL is the ttl of a lock's or a semaphore's lease if the request has
	// none.
	DefaultLeaseTTL = 33 * time.Second

	// DefaultIdleTimeout is the idle timeout in answers to clients. A session ends
	// after twice that time.
	DefaultIdleTimeout = 20 * time.Second

	// DefaultMaxIdleTimeout is the longest idle timeout that a client may ask for.
	DefaultMaxIdleTimeout = time.Hour

	// idDigits is the length of session ids and of tokens.
	idDigits = 32
)

// IsSessionID reports whether a text has the form of a session id, which is that of a
// token.
func IsSessionID(text string) bool { return IsToken(text) }

// IsToken reports whether a text has the form of a token: 32 lowercase hexadecimal
// digits.
func IsToken(text string) bool {
	for _, r := range text {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return len(text) == idDigits
}

// CheckKey checks the name of a lock or a semaphore.
func CheckKey(key string) error { return kvslots.Lock(key).Check(false) }

// Session removes and returns the field "session" of a request over NATS. Over HTTP
// SessionHeader has its value.
func (f Fields) Session() (string, error) {
	session, err := f.take("session")
	if err == nil && session == "" {
		err = sessionMissing("session")
	}
	return session, err
}

// sessionMissing returns the error for a request without the id of a session in the given
// field or header.
func sessionMissing(field string) error { return rangeError(field, "the id of a session") }

// Key removes and returns the field "key" of a request over NATS. Over HTTP the path
// contains its value.
func (f Fields) Key() (string, error) {
	key, err := f.take("key")
	if err != nil {
		return "", err
	}
	return key, CheckKey(key)
}

// Empty returns an error if the body has any field.
func (f Fields) Empty(*Params) error { return f.only() }

// CreateSession parses {"label", "idle_timeout_s"}. The idle timeout is at least a second.
func (f Fields) CreateSession(p *Params) (err error) {
	if err := f.only("label", "idle_timeout_s"); err != nil {
		return err
	}
	if _, ok := f.object["idle_timeout_s"]; ok {
		if p.IdleTimeout, err = f.seconds("idle_timeout_s", 1); err != nil {
			return err
		}
	}
	return f.label(p)
}

// Acquire parses {"acquire_timeout_s", "lease_ttl_s", "label"}, and for a semaphore
// {"acquire_timeout_s", "any_limit", "limit", "lease_ttl_s", "label"}.
func (f Fields) Acquire(p *Params) (err error) {
	names := []string{"acquire_timeout_s", "any_limit"}
	if p.Kind == kvslots.KindLock {
		names = names[:1]
	}
	if err = f.grantParams(p, names...); err != nil {
		return err
	}
	if p.Wait, err = f.seconds("acquire_timeout_s", 0); err == nil {
		p.AnyLimit, err = f.boolean("any_limit", false)
	}
	return err
}

// Enqueue parses {"lease_ttl_s", "label"}, and for a semaphore {"limit", "lease_ttl_s",
// "label"}. For a lock the body may be absent.
func (f Fields) Enqueue(p *Params) error {
	if f.absent && p.Kind == kvslots.KindLock {
		p.Limit = 1
		return nil
	}
	return f.grantParams(p)
}

func (f Fields) grantParams(p *Params, others ...string) (err error) {
	if p.Kind == kvslots.KindSemaphore {
		others = append(others, "limit")
	}
	if err = f.present(append(others, "lease_ttl_s", "label")...); err != nil {
		return err
	}
	if p.Limit = 1; p.Kind == kvslots.KindSemaphore {
		if p.Limit, err = f.between("limit", 1, kvslots.MaxSemaphoreLimit); err != nil {
			return err
		}
	}
	if p.TTL, err = f.optionalSeconds("lease_ttl_s"); err != nil {
		return err
	}
	return f.label(p)
}

// Wait parses {"timeout_s"}.
func (f Fields) Wait(p *Params) (err error) {
	if err = f.present("timeout_s"); err == nil {
		p.Wait, err = f.seconds("timeout_s", 0)
	}
	return err
}

// Release parses {"token"}.
func (f Fields) Release(p *Params) (err error) {
	if err = f.present("token"); err == nil {
		p.Token, err = f.token()
	}
	return err
}

// Renew parses {"token", "lease_ttl_s"}.
func (f Fields) Renew(p *Params) (err error) {
	if err = f.present("token", "lease_ttl_s"); err != nil {
		return err
	}
	if p.Token, err = f.token(); err == nil {
		p.TTL, err = f.optionalSeconds("lease_ttl_s")
	}
	return err
}

// FollowSession parses {"timeout_s"}, of at least a second.
func (f Fields) FollowSession(p *Params) (err error) {
	if err = f.present("timeout_s"); err == nil {
		p.Wait, err = f.seconds("timeout_s", 1)
	}
	return err
}

// FollowGrant parses {"token", "timeout_s"}. The timeout is at least a second.
func (f Fields) FollowGrant(p *Params) (err error) {
	if err = f.present("token", "timeout_s"); err != nil {
		return err
	}
	if p.Token, err = f.token(); err == nil {
		p.Wait, err = f.seconds("timeout_s", 1)
	}
	return err
}

// present returns an error if the body is absent, or has fields other than names.
func (f Fields) present(names ...string) error {
	if f.absent {
		return ErrMalformed
	}
	return f.only(names...)
}

func (f Fields) token() (string, error) {
	token, _ := f.text("token")
	if !IsToken(token) {
		return "", rangeError("token", strconv.Itoa(idDigits)+" lowercase hexadecimal digits")
	}
	return token, nil
}
