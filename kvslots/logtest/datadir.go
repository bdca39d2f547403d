package logtest

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

var (
	// storedSecret matches the secrets that can be recognized by their form.
	storedSecret = regexp.MustCompile(unlikeHash)

	// storedPublic matches what may contain any UUID, and is no secret: names of locks, and
	// owners of those of Forrst.
	storedPublic = regexp.MustCompile(`"(name|owner)":"[^"]*"`)
)

// SearchDir looks for secrets in the data directory of a server: see SecretsIn. Tests call it
// when the server has stopped.
func SearchDir(dir string) { noteAll(SecretsIn(dir)) }

// SecretsIn returns where the files below a data directory, or their names, hold secrets: the
// beginning of a UUID, a credential, or 128 bits, in binary or hexadecimal, whose hash is in
// the directory. The bucket holds such hashes in place of the ids of pools, leases and
// sessions, and of tokens, so that a test need not say which of them it used.
func SecretsIn(dir string) (found []string) {
	hashes := hashes{}
	eachFile(dir, func(_ string, content []byte) { hashes.add(content) })
	eachFile(dir, func(name string, content []byte) {
		for _, text := range [][]byte{[]byte(name), content} {
			for at := range hashes.secrets(text) {
				found = append(found, excerpt("the data directory's "+name, text, at))
			}
		}
	})
	return found
}

// eachFile calls do with the name below dir and the content of each file. Files that cannot
// be read are left out: a server or a test may be removing them.
func eachFile(dir string, do func(name string, content []byte)) {
	_ = filepath.WalkDir(dir, func(path string, file fs.DirEntry, err error) error {
		if err == nil && file.Type().IsRegular() {
			if content, err := os.ReadFile(path); err == nil {
				name, _ := filepath.Rel(dir, path)
				do(name, content)
			}
		}
		return nil
	})
}

// hashes are the texts in a data directory that may be hashes of secrets.
type hashes map[entry.Hash]bool

func (h hashes) add(content []byte) {
	for at := range hexDigits(content, 32) {
		var hash entry.Hash
		if hash.UnmarshalText(content[at[0]:at[1]]) == nil {
			h[hash] = true
		}
	}
}

// secrets yields where a text holds secrets.
func (h hashes) secrets(text []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		for _, at := range storedSecret.FindAllIndex(storedPublic.ReplaceAllFunc(text, blank), -1) {
			if !yield(span(at)) {
				return
			}
		}
		for at := range hexDigits(text, 32) {
			if h.hasHex(text[at[0]:at[1]]) && !yield(at) {
				return
			}
		}
		for at := range hexDigits(text, 16) {
			if h.hasHalf(text[at[0]:at[1]]) && !yield(at) {
				return
			}
		}
		for at := range binary(text) {
			if h.has([16]byte(text[at[0]:at[1]])) && !yield(at) {
				return
			}
		}
	}
}

func blank(text []byte) []byte { return bytes.Repeat([]byte(" "), len(text)) }

// hasHex reports whether 32 digits are an id or a token.
func (h hashes) hasHex(digits []byte) bool {
	var id [16]byte
	_, err := hex.Decode(id[:], digits)
	return err == nil && h.has(id)
}

// hasHalf reports whether 16 digits are the secret half of a token.
func (h hashes) hasHalf(digits []byte) bool {
	return h[entry.HashOf(entry.OfToken, string(bytes.ToLower(digits)))]
}

// has reports whether the hash of an id, or of a token, is in the directory. It takes only
// UUIDs of version 4 for ids of pools and leases, and what begins with a zero for a token,
// since it is called for nearly all that is in binary.
func (h hashes) has(id [16]byte) bool {
	if id[6]>>4 == 4 && id[8]>>6 == 2 {
		if text := uuid.UUID(id).String(); h[entry.HashOf(entry.OfPool, text)] || h[entry.HashOf(entry.OfLease, text)] {
			return true
		}
	}
	digits := hex.EncodeToString(id[:])
	return h[entry.HashOf(entry.OfSession, digits)] || id[0] == 0 && h[entry.HashOf(entry.OfToken, digits[16:])]
}

// span is where a part of a text begins and ends.
type span [2]int

// hexDigits yields the first n and the last n hexadecimal digits of each row of them. What is
// before or behind n digits in a block, such as a checksum, may look like one more.
func hexDigits(text []byte, n int) iter.Seq[span] {
	return func(yield func(span) bool) {
		begin := 0
		for i := range len(text) + 1 {
			if i < len(text) && isHex[text[i]] {
				continue
			}
			if i-begin >= n && !yield(span{begin, begin + n}) || i-begin > n && !yield(span{i - n, i}) {
				return
			}
			begin = i + 1
		}
	}
}

var isHex = func() (is [256]bool) {
	for _, c := range "0123456789abcdefABCDEF" {
		is[c] = true
	}
	return is
}()

// binary yields where at least two of 16 bytes are not text, as in nearly all ids. It leaves
// out what begins with two zeros: blocks are full of them, where a test writes nothing else.
func binary(text []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		count := 0 // within the last 16 bytes
		for i, c := range text {
			if !isText(c) {
				count++
			}
			if i >= 16 && !isText(text[i-16]) {
				count--
			}
			if i >= 15 && count >= 2 && text[i-15]|text[i-14] != 0 && !yield(span{i - 15, i + 1}) {
				return
			}
		}
	}
}

func isText(c byte) bool { return c >= ' ' && c <= '~' || c == '\r' || c == '\n' }
