package kvslots

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A token is 16 digits of the fence and 16 that cannot be guessed. These are
// derived from the session's id, which its client sends with every request, and
// a nonce that stands in the bucket: so any peer that the session asks can hand
// the token out again, and none has it stored.

// newSecret draws a nonce and derives the half that no other client can guess.
func newSecret(session string) (nonce entry.Hash, half string) {
	nonce = randomHash()
	return nonce, secretHalf(session, nonce)
}

// randomHash is an id that cannot be guessed.
func randomHash() (h entry.Hash) {
	_, _ = rand.Read(h[:])
	return h
}

// secretHalf are the digits that cannot be guessed.
func secretHalf(session string, nonce entry.Hash) string {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write(nonce[:])
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// halfHash stands for them in the bucket.
func halfHash(half string) entry.Hash { return entry.HashOf("token", half) }

func newToken(fence uint64, half string) string { return fmt.Sprintf("%016x", fence) + half }

// parseToken takes a token apart.
func parseToken(token string) (fence uint64, lease entry.Hash, err error) {
	if !isHex(token) {
		return 0, lease, &RangeError{"token", "32 lowercase hexadecimal digits"}
	}
	half := len(token) / 2
	fence, err = strconv.ParseUint(token[:half], 16, 64)
	return fence, halfHash(token[half:]), err
}

// isHex reports whether it is what session ids and tokens look like: 32 lowercase
// hexadecimal digits, which is what a hash looks like, too.
func isHex(text string) bool { return new(entry.Hash).UnmarshalText([]byte(text)) == nil }
