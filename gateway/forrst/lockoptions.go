package forrst

import (
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	lockURN = "urn:forrst:ext:atomicLock"

	maxKey   = 200
	maxOwner = 200 // bytes

	maxFullKey = len("lock:") + maxFunction + len(":") + maxKey
)

const (
	scopeFunction = "function"
	scopeGlobal   = "global"
)

// lockOptions are the options of the extension (gateway/README.md, "Forrst: /rpc").
type lockOptions struct {
	key         string
	scope       string
	owner       string
	named       bool // the caller named the owner
	ttl         time.Duration
	block       time.Duration // 0 if the call does not wait
	blockText   duration
	autoRelease bool
	label       string // see kvslots.WithLabel
}

func readLockOptions(raw json.RawMessage) (*lockOptions, *Error) {
	fields, wrong := readObject(raw, codeArguments, "options", "", "key", "ttl", "scope", "block", "owner", "auto_release", "label")
	if wrong != nil {
		return nil, wrong
	}
	o := &lockOptions{scope: scopeFunction}
	if o.key, wrong = fields.key("key", maxKey); wrong != nil {
		return nil, wrong
	}
	if _, o.ttl, wrong = fields.duration("ttl"); wrong != nil {
		return nil, wrong
	}
	if fields.has("scope") {
		if o.scope, _ = fields.text("scope"); o.scope != scopeFunction && o.scope != scopeGlobal {
			return nil, fields.fault("scope", scopeFunction+" or "+scopeGlobal)
		}
	}
	if fields.has("block") {
		if o.blockText, o.block, wrong = fields.duration("block"); wrong != nil {
			return nil, wrong
		}
	}
	o.named = fields.has("owner")
	if o.owner, wrong = fields.owner(); wrong != nil {
		return nil, wrong
	}
	if o.label, wrong = fields.label(); wrong != nil {
		return nil, wrong
	}
	o.autoRelease, wrong = fields.boolean("auto_release", true)
	return o, wrong
}

// label returns the field "label", or "" if it is missing.
func (o object) label() (string, *Error) {
	if !o.has("label") {
		return "", nil
	}
	text, ok := o.text("label")
	var options kvslots.Options
	if !ok || kvslots.WithLabel(text)(&options) != nil {
		return "", o.fault("label", "0 to "+strconv.Itoa(kvslots.MaxLabel)+" printable characters")
	}
	return text, nil
}

// owner returns the field "owner", or a new UUID if it is missing.
func (o object) owner() (string, *Error) {
	if !o.has("owner") {
		return uuid.NewString(), nil
	}
	return o.plain("owner", maxOwner)
}

var keyForm = regexp.MustCompile(`^[a-zA-Z0-9_:.-]+$`)

// key returns a field with a lock's key or full key.
func (o object) key(field string, most int) (string, *Error) {
	key, _ := o.text(field)
	if len(key) > most || !keyForm.MatchString(key) {
		return "", o.fault(field, "1 to "+strconv.Itoa(most)+" characters of a-z, A-Z, 0-9, -, _, : and .")
	}
	return key, nil
}

func (o *lockOptions) fullKey(function string) string {
	if o.scope == scopeGlobal {
		return "lock:" + o.key
	}
	return "lock:" + function + ":" + o.key
}
