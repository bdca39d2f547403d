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

// A token is 16 hexadecimal digits of the fence, and 16 secret ones: the secret half. It is
// derived from the session's id, which the client sends with every request, and from a
// nonce in the bucket. So any peer can compute the token for its session, and the bucket
// does not contain it.

// newSecret draws a nonce, and derives the secret half of a token from it.
func newSecret(session string) (nonce entry.Hash, half string) {
	nonce = randomHash()
	return nonce, secretHalf(session, nonce)
}

func randomHash() (h entry.Hash) {
	_, _ = rand.Read(h[:])
	return h
}

func secretHalf(session string, nonce entry.Hash) string {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write(nonce[:])
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

func newToken(fence uint64, half string) string { return fmt.Sprintf("%016x", fence) + half }

// parseToken returns the fence of a token, and the hash of its secret half.
func parseToken(token string) (fence uint64, lease entry.Hash, err error) {
	if !isHex(token) {
		return 0, lease, &RangeError{"token", "32 lowercase hexadecimal digits"}
	}
	half := len(token) / 2
	fence, err = strconv.ParseUint(token[:half], 16, 64)
	return fence, halfHash(token[half:]), err
}

// isHex reports whether text has the form of session ids and tokens: 32 lowercase
// hexadecimal digits, the text form of an entry.Hash.
func isHex(text string) bool { return new(entry.Hash).UnmarshalText([]byte(text)) == nil }
