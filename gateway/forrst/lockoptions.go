package forrst

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	lockURN     = "urn:forrst:ext:atomicLock"
	lockVersion = "1.0.0"

	maxKey   = 200
	maxOwner = 200 // bytes

	// maxFullKey is the longest name of a lock.
	maxFullKey = len("lock:") + maxFunction + len(":") + maxKey
)

// The scopes of a lock.
const (
	scopeFunction = "function"
	scopeGlobal   = "global"
)

// lockOptions are those of the extension (gateway/README.md, "Forrst: /rpc").
type lockOptions struct {
	key         string
	scope       string
	owner       string
	ttl         time.Duration
	block       time.Duration // 0 without one
	blockSpan   span
	autoRelease bool
}

func readLockOptions(raw json.RawMessage) (*lockOptions, *Error) {
	fields, wrong := readObject(raw, codeArguments, "options", "", "key", "ttl", "scope", "block", "owner", "auto_release")
	if wrong != nil {
		return nil, wrong
	}
	o := &lockOptions{scope: scopeFunction}
	if o.key, wrong = fields.key("key", maxKey); wrong != nil {
		return nil, wrong
	}
	if _, o.ttl, wrong = fields.span("ttl"); wrong != nil {
		return nil, wrong
	}
	if fields.has("scope") {
		if o.scope, _ = fields.text("scope"); o.scope != scopeFunction && o.scope != scopeGlobal {
			return nil, fields.fault("scope", scopeFunction+" or "+scopeGlobal)
		}
	}
	if fields.has("block") {
		if o.blockSpan, o.block, wrong = fields.span("block"); wrong != nil {
			return nil, wrong
		}
	}
	if o.owner, wrong = fields.owner(); wrong != nil {
		return nil, wrong
	}
	o.autoRelease, wrong = fields.boolean("auto_release", true)
	return o, wrong
}

// owner is the field "owner", or else a UUID v4.
func (o object) owner() (string, *Error) {
	if !o.has("owner") {
		return uuid.NewString(), nil
	}
	return o.plain("owner", maxOwner)
}

// key is a lock's key, with or without the scope before it.
func (o object) key(field string, most int) (string, *Error) {
	key, _ := o.text(field)
	if key == "" || len(key) > most || strings.ContainsFunc(key, func(r rune) bool { return !isKeyRune(r) }) {
		return "", o.fault(field, "1 to "+strconv.Itoa(most)+" characters of a-z, A-Z, 0-9, -, _, : and .")
	}
	return key, nil
}

// fullKey is the lock's name.
func (o *lockOptions) fullKey(function string) string {
	if o.scope == scopeGlobal {
		return "lock:" + o.key
	}
	return "lock:" + function + ":" + o.key
}

// waited is how long the call has waited in vain: what it asked for, unless that
// is more than there is.
func (o *lockOptions) waited(most time.Duration) span {
	if o.block > most {
		return spanOf(most)
	}
	return o.blockSpan
}
