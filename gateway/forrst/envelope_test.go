package forrst_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

func TestBadEnvelopes(t *testing.T) {
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": func(context.Context, forrst.Call) (any, error) { return 1, nil }}))
	const protocol, call = `"protocol":{"name":"forrst","version":"0.1.0"}`, `"call":{"function":"f.f"}`
	for _, c := range []struct{ body, code, text string }{
		{``, "PARSE_ERROR", `"id":null`},
		{`{`, "PARSE_ERROR", `"id":null`},
		{strings.Repeat(`[`, 20000), "PARSE_ERROR", `"id":null`},
		{strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000), "PARSE_ERROR", `"id":null`},
		{`{} {}`, "PARSE_ERROR", `"id":null`},
		{"{\"id\":\"\xff\"}", "PARSE_ERROR", ``},
		{`[]`, "INVALID_REQUEST", `the request must be an object`},
		{`null`, "INVALID_REQUEST", `the request must be an object`},
		{`{}`, "INVALID_REQUEST", `id must be`},
		{`{` + protocol + `,` + call + `}`, "INVALID_REQUEST", `id must be`},
		{`{"id":7,` + protocol + `,` + call + `}`, "INVALID_REQUEST", `id must be`},
		{`{"id":"",` + protocol + `,` + call + `}`, "INVALID_REQUEST", `id must be`},
		{`{"id":"\ud800",` + protocol + `,` + call + `}`, "INVALID_REQUEST", `id must be`},
		{`{"id":"r","id":"s",` + protocol + `,` + call + `}`, "INVALID_REQUEST", `id must be given once`},
		{`{"id":"r","more":1,` + protocol + `,` + call + `}`, "INVALID_REQUEST", `no fields but protocol, id`},
		{`{"id":"r",` + call + `}`, "INVALID_REQUEST", `"id":"r"`},
		{`{"id":"r","protocol":"forrst/0.1",` + call + `}`, "INVALID_REQUEST", `protocol must be an object`},
		{`{"id":"r","protocol":{"name":"json-rpc","version":"0.1.0"},` + call + `}`, "INVALID_REQUEST", `protocol.name must be`},
		{`{"id":"r","protocol":{"name":"forrst"},` + call + `}`, "INVALID_REQUEST", `protocol.version must be`},
		{`{"id":"r","protocol":{"name":"forrst","version":"2.0.0"},` + call + `}`, "INVALID_PROTOCOL_VERSION", `"supported":["0.1.0"]`},
		{`{"id":"r",` + protocol + `}`, "INVALID_REQUEST", `call must be an object`},
		{`{"id":"r",` + protocol + `,"call":{}}`, "INVALID_REQUEST", `call.function must be`},
		{`{"id":"r",` + protocol + `,"call":{"function":"f.f","version":1}}`, "INVALID_REQUEST", `call.version must be`},
		{`{"id":"r",` + protocol + `,"call":{"function":"f.f","arguments":[]}}`, "INVALID_REQUEST", `call.arguments must be an object`},
		{`{"id":"r",` + protocol + `,"call":{"function":"f.f","arguments":null}}`, "INVALID_REQUEST", `call.arguments must be an object`},
		{`{"id":"r",` + protocol + `,"call":{"function":"f.f","Arguments":{}}}`, "INVALID_REQUEST", `no fields but function, version, arguments`},
		{`{"id":"r","context":1,` + protocol + `,` + call + `}`, "INVALID_REQUEST", `context must be an object`},
		{`{"id":"r","extensions":{},` + protocol + `,` + call + `}`, "INVALID_REQUEST", `extensions must be an array`},
		{`{"id":"r","extensions":[1],` + protocol + `,` + call + `}`, "INVALID_REQUEST", `extensions[0] must be an object`},
		{`{"id":"r","extensions":[{}],` + protocol + `,` + call + `}`, "INVALID_REQUEST", `extensions[0].urn must be`},
		{`{"id":"r","extensions":[{"urn":"urn:forrst:ext:async"}],` + protocol + `,` + call + `}`, "EXTENSION_NOT_SUPPORTED", `extensions[0].urn`},
		{`{"id":"r","extensions":[` + strings.Repeat(`{},`, 16) + `{}],` + protocol + `,` + call + `}`, "INVALID_REQUEST", `at most 16`},
		{strings.Replace(envelope("f.f", "", `{"key":"k","ttl":{"value":1,"unit":"second"}}`), `"extensions":[`,
			`"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","ttl":{"value":1,"unit":"second"}}},`, 1), "INVALID_REQUEST", `extensions[1].urn must be given once`},
	} {
		a := d.post(t, c.body)
		if a.code != 400 || !bytes.Contains(a.body, []byte(`"code":"`+c.code+`"`)) || !strings.Contains(string(a.body), strings.ReplaceAll(c.text, `\`, `\\`)) {
			t.Errorf("%s\n got %d %s\nwant %s %s", c.body, a.code, a.body, c.code, c.text)
		}
	}
	a := d.post(t, `{"id":"`+strings.Repeat("x", 64<<10)+`"}`)
	if a.code != 413 || !bytes.Contains(a.body, []byte("INVALID_REQUEST")) {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// No function's name leads to a subject other than its own.
func TestBadFunctionNames(t *testing.T) {
	_, d := startSite(t, nil)
	for _, name := range []string{
		"", ".", ".a", "a.", "a..b", "*", "a.*", ">", "a.>", "$SRV.PING", "a b", `a\tb`, `a\r\nPUB x 0`, `a\u0000`, "ä.b", "a/b", strings.Repeat("x", 129),
	} {
		d.call(t, name, "", "", 400, `call.function must be`)
	}
	for _, name := range []string{"urn:cline:forrst:fn:none", "forrst.anything", "none", "urn:acme:forrst:fn:x"} {
		d.call(t, name, "", "", 404, `"code":"FUNCTION_NOT_FOUND"`)
	}
}

func TestBadOptions(t *testing.T) {
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": func(context.Context, forrst.Call) (any, error) { return 1, nil }}))
	ttl := `"ttl":{"value":1,"unit":"minute"}`
	for options, text := range map[string]string{
		`{}`:                        "key must be 1 to 200",
		`{"key":"k"}`:               "ttl must be an object",
		`{` + ttl + `}`:             "key must be 1 to 200",
		`null`:                      "options must be an object",
		`{"key":"","x":1}`:          "no fields but key, ttl",
		`{"key":"",` + ttl + `}`:    "key must be 1 to 200",
		`{"key":"a b",` + ttl + `}`: "key must be 1 to 200",
		`{"key":"ä",` + ttl + `}`:   "key must be 1 to 200",
		`{"key":"` + strings.Repeat("x", 201) + `",` + ttl + `}`: "key must be 1 to 200",
		`{"key":"k","ttl":60}`:                                        "ttl must be an object",
		`{"key":"k","ttl":{"value":60}}`:                              "ttl.unit must be second, minute, hour or day",
		`{"key":"k","ttl":{"value":60,"unit":"week"}}`:                "ttl.unit must be second, minute, hour or day",
		`{"key":"k","ttl":{"unit":"second"}}`:                         "ttl.value must be a whole number, 1 or more",
		`{"key":"k","ttl":{"value":0,"unit":"second"}}`:               "ttl.value must be a whole number, 1 or more",
		`{"key":"k","ttl":{"value":-1,"unit":"second"}}`:              "ttl.value must be a whole number, 1 or more",
		`{"key":"k","ttl":{"value":0.5,"unit":"second"}}`:             "ttl.value must be a whole number, 1 or more",
		`{"key":"k","ttl":{"value":"1","unit":"second"}}`:             "ttl.value must be a whole number, 1 or more",
		`{"key":"k",` + ttl + `,"block":{"value":0,"unit":"second"}}`: "block.value must be a whole number, 1 or more",
		`{"key":"k",` + ttl + `,"block":null}`:                        "block must be an object",
		`{"key":"k",` + ttl + `,"scope":"local"}`:                     "scope must be function or global",
		`{"key":"k",` + ttl + `,"scope":null}`:                        "scope must be function or global",
		`{"key":"k",` + ttl + `,"owner":""}`:                          "owner must be a string of 1 to 200 bytes",
		`{"key":"k",` + ttl + `,"owner":"a\nb"}`:                      "owner must be a string of 1 to 200 bytes",
		`{"key":"k",` + ttl + `,"auto_release":"no"}`:                 "auto_release must be true or false",
		`{"key":"k",` + ttl + `,` + ttl + `}`:                         "ttl must be given once",
	} {
		a := d.call(t, "f.f", "", options, 400, `"code":"INVALID_ARGUMENTS"`)
		if !bytes.Contains(a.body, []byte(text)) {
			t.Errorf("%s: %s, want %s", options, a.body, text)
		}
	}
	for _, options := range []string{
		`{"key":"` + strings.Repeat("x", 200) + `",` + ttl + `}`,
		`{"key":"aZ0-_:.",` + ttl + `,"scope":"function","owner":"` + strings.Repeat("ö", 100) + `","auto_release":true}`,
		`{"key":"k","ttl":{"value":99999999999999999999,"unit":"day"},"block":{"value":99999999999999999999,"unit":"day"}}`,
	} {
		d.call(t, "f.f", "", options, 200, `"acquired":true`)
	}
}

// Every envelope, however malformed, is answered with an envelope.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"id":"r"}`, envelope("f.f", `{"a":1}`, `{"key":"k","ttl":{"value":1,"unit":"second"},"block":{"value":1,"unit":"day"},"scope":"global","owner":"o","auto_release":false}`),
		envelope("f.panics", "", ""), envelope(release, `{"key":"k","owner":"o"}`, ""), envelope(forceRelease, `{"key":"k"}`, ""), envelope(status, `{"key":"k"}`, ""),
		envelope("urn:cline:forrst:ext:atomic-lock:fn:status", `{"key":"x"}`, ""), strings.Repeat(`[`, 100),
	} {
		f.Add([]byte(seed))
	}
	server := forrst.New(freeLocks{}, forrst.Config{
		Lending: gateway.NewLending(),
		Functions: functions(map[string]forrst.Func{
			"f.f":      func(_ context.Context, c forrst.Call) (any, error) { return c.Arguments, nil },
			"f.panics": func(context.Context, forrst.Call) (any, error) { panic(1) },
		}),
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		code, failure, text := ask(t, server, string(body), "")
		var e struct {
			Protocol struct{ Name, Version string }
			ID       *string
			Result   json.RawMessage
			Errors   []struct {
				Code, Message string
				Retryable     *bool
			}
		}
		if err := json.Unmarshal(text, &e); err != nil || e.Protocol.Name != "forrst" || e.Protocol.Version != "0.1.0" {
			t.Fatalf("%d %s: %v", code, text, err)
		}
		if code >= http.StatusInternalServerError && code != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", code, text)
		}
		failed := code != http.StatusOK
		if failed != (len(e.Errors) > 0) || failed != (failure != "") || failed && string(e.Result) != "null" || !failed && e.ID == nil {
			t.Fatalf("%d %s %s", code, failure, text)
		}
		for _, one := range e.Errors {
			if one.Code == "" || one.Message == "" || one.Retryable == nil {
				t.Fatalf("%d %s", code, text)
			}
		}
	})
}

// freeLocks grants every lock.
type freeLocks struct{ ops.OwnedLocks }

func (freeLocks) LockOwned(_ context.Context, name, owner string, opts ...kvslots.Option) (*kvslots.OwnedLock, error) {
	var o kvslots.Options
	err := o.Apply(opts)
	ttl, _ := o.Times()
	return &kvslots.OwnedLock{Name: name, Owner: owner, TTL: ttl}, err
}

func (freeLocks) UnlockOwned(context.Context, *kvslots.OwnedLock) (bool, error) { return true, nil }
func (freeLocks) ReleaseOwned(context.Context, string, string) error            { return kvslots.ErrNotOwner }
func (freeLocks) ForceRelease(context.Context, string) error                    { return kvslots.ErrNotHeld }
func (freeLocks) OwnedStatus(context.Context, string) (kvslots.OwnedStatus, error) {
	return kvslots.OwnedStatus{Held: true, Owner: "o"}, nil
}
func (freeLocks) Ready() error { return nil }
