package wire

import (
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
