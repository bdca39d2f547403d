package forrst

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	maxID       = 256 // bytes
	maxVersion  = 64
	maxFunction = 128

	maxExtensions = 16
)

type request struct {
	id   *string // nil if it could not be read
	call Call
	lock *lockOptions // nil without the extension
}

// readRequest parses an envelope (gateway/README.md, "Forrst: /rpc"). Beside an error
// it returns the id, if that could be read.
func readRequest(body []byte) (r request, wrong *Error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return r, &Error{Code: codeParse, Message: "the body must be JSON in UTF-8", status: http.StatusBadRequest}
	}
	top, wrong := readObject(body, codeRequest, "the request", "", "protocol", "id", "call", "context", "extensions")
	if id, faulty := top.plain("id", maxID); faulty == nil {
		r.id = &id
	} else if wrong == nil {
		wrong = faulty
	}
	if wrong != nil {
		return r, wrong
	}
	if wrong := checkProtocol(top); wrong != nil {
		return r, wrong
	}
	if r.call, wrong = readCall(top); wrong != nil {
		return r, wrong
	}
	if context := top.fields["context"]; context != nil && context[0] != '{' {
		return r, top.fault("context", "an object")
	}
	r.lock, wrong = readExtensions(top)
	return r, wrong
}

func checkProtocol(top object) *Error {
	protocol, wrong := top.object("protocol", "name", "version")
	if wrong != nil {
		return wrong
	}
	if name, _ := protocol.text("name"); name != protocolName {
		return protocol.fault("name", `"`+protocolName+`"`)
	}
	version, ok := protocol.text("version")
	switch {
	case !ok:
		return protocol.fault("version", `"`+protocolVersion+`"`)
	case version != protocolVersion:
		return &Error{
			Code: codeProtocol, Message: "protocol.version must be " + protocolVersion, status: http.StatusBadRequest,
			Details: map[string][]string{"supported": {protocolVersion}},
		}
	}
	return nil
}

func readCall(top object) (c Call, wrong *Error) {
	fields, wrong := top.object("call", "function", "version", "arguments")
	if wrong != nil {
		return c, wrong
	}
	c.Function, _ = fields.text("function")
	if !isFunction(c.Function) {
		return c, fields.fault("function", functionsAllowed)
	}
	if fields.has("version") {
		if c.Version, wrong = fields.plain("version", maxVersion); wrong != nil {
			return c, wrong
		}
	}
	c.Arguments = json.RawMessage("{}")
	if fields.has("arguments") {
		c.Arguments = fields.fields["arguments"]
	}
	if c.Arguments[0] != '{' {
		return c, fields.fault("arguments", "an object")
	}
	return c, nil
}

var functionsAllowed = "words of a-z, A-Z, 0-9, -, _ and : with dots between them, of at most " + strconv.Itoa(maxFunction) + " characters"

var functionForm = regexp.MustCompile(`^[a-zA-Z0-9_:-]+(\.[a-zA-Z0-9_:-]+)*$`)

// isFunction reports whether a function's name is safe in a subject: it has no
// wildcards, no empty tokens and at most maxFunction characters.
func isFunction(name string) bool { return len(name) <= maxFunction && functionForm.MatchString(name) }

func readExtensions(top object) (*lockOptions, *Error) {
	raw := top.fields["extensions"]
	if raw == nil {
		return nil, nil
	}
	var all []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &all) != nil || len(all) > maxExtensions {
		return nil, top.fault("extensions", "an array of at most "+strconv.Itoa(maxExtensions)+" objects")
	}
	var lock *lockOptions
	for i, raw := range all {
		name := "extensions[" + strconv.Itoa(i) + "]"
		extension, wrong := readObject(raw, codeRequest, name, name+".", "urn", "options")
		if wrong != nil {
			return nil, wrong
		}
		urn, ok := extension.text("urn")
		switch {
		case !ok:
			return nil, extension.fault("urn", "a string")
		case urn != lockURN:
			return nil, &Error{
				Code: codeExtension, Message: "No such extension; there is " + lockURN, status: http.StatusBadRequest,
				Details: map[string]string{"field": name + ".urn"},
			}
		case lock != nil:
			return nil, extension.fault("urn", wire.Once)
		}
		if lock, wrong = readLockOptions(extension.fields["options"]); wrong != nil {
			return nil, wrong
		}
	}
	return lock, nil
}
