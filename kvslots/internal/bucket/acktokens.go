package bucket

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
)

// ackTokens translates between the ID of a write and the last token of the subject on
// which the write is acknowledged. A client that can read acknowledgements, because it
// may subscribe to the inboxes of this connection, cannot guess the next token: otherwise
// it could acknowledge a write that the server then refuses.
//
// append and write may each be called by one goroutine at a time.
type ackTokens struct {
	block cipher.Block

	// For append and write: an argument of an interface's method escapes to the heap.
	made, read *[aes.BlockSize]byte
}

const idSize = 8 // bytes of an ID, which ends the block; the bytes before it are 0

func newAckTokens() ackTokens {
	var key [32]byte
	_, _ = rand.Read(key[:])          // it never fails
	block, _ := aes.NewCipher(key[:]) // it fails only for other lengths of a key
	return ackTokens{block, new([aes.BlockSize]byte), new([aes.BlockSize]byte)}
}

func (t ackTokens) append(dst []byte, write uint64) []byte {
	b := t.made[:]
	clear(b)
	binary.BigEndian.PutUint64(b[aes.BlockSize-idSize:], write)
	t.block.Encrypt(b, b)
	return hex.AppendEncode(dst, b)
}

// write returns the ID of a token's write. ok is false for a token that append did not
// make.
func (t ackTokens) write(token string) (id uint64, ok bool) {
	var text [2 * aes.BlockSize]byte
	b := t.read[:]
	if copy(text[:], token) != len(token) {
		return 0, false
	}
	if _, err := hex.Decode(b, text[:]); err != nil {
		return 0, false
	}
	t.block.Decrypt(b, b)
	for _, zero := range b[:aes.BlockSize-idSize] {
		if zero != 0 {
			return 0, false
		}
	}
	return binary.BigEndian.Uint64(b[aes.BlockSize-idSize:]), true
}
