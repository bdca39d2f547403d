package library_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	poolA = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	poolB = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a02"
	hashA = "d600c24f962d5930089cc56981788d46"
)

func TestPoolSession(t *testing.T) {
	d := openFixture(t, openStore(t))
	const path = "/l/" + poolA
	state := func(rest string) string { return `{"id":"` + poolA + `",` + rest + `}` }
	inspected := func(rest string) string { return state(rest + `,"hash":"` + hashA + `"`) }

	d.want(t, "GET", path, "", 404, `{"error":"no such pool"}`)
	d.want(t, "PUT", path, `{"count":4}`, 200, state(`"count":4,"in_use":0,"available":4,"waiting":0`))
	d.want(t, "PUT", path, `{"count":4}`, 200, state(`"count":4,"in_use":0,"available":4,"waiting":0`))
	d.want(t, "PUT", path, `{"count":1}`, 200, state(`"count":1,"in_use":0,"available":1,"waiting":0`))
	d.want(t, "GET", "/l/"+strings.ToUpper(poolA), "", 200, inspected(`"count":1,"in_use":0,"available":1,"waiting":0`))
	d.want(t, "GET", "/l/%39"+poolA[1:], "", 200, inspected(`"count":1,"in_use":0,"available":1,"waiting":0`))
	d.want(t, "GET", path+"?wait=1", "", 200, inspected(`"count":1,"in_use":0,"available":1,"waiting":0`))
	d.want(t, "GET", "/l/"+poolB, "", 404, `{"error":"no such pool"}`)
	d.want(t, "DELETE", path, "", 200, `{"deleted":true}`)
	d.want(t, "DELETE", path, "", 200, `{"deleted":true}`)
	d.want(t, "GET", path, "", 404, `{"error":"no such pool"}`)
}

// The header Kvslots-Pool has the id, so that no URL contains it.
func TestPoolInHeader(t *testing.T) {
	d := openFixture(t, openStore(t))
	in := []string{"Kvslots-Pool", strings.ToUpper(poolA)}
	ask := func(method, path, body string, code int, answer string, header ...string) string {
		t.Helper()
		got, text, _ := d.Do(t, method, "/l/self"+path, body, header...)
		if got != code || !strings.HasPrefix(text, answer) {
			t.Errorf("%s /l/self%s: %d %s, want %d %s", method, path, got, text, code, answer)
		}
		return text
	}
	ask("PUT", "", `{"count":1}`, 200, `{"id":"`+poolA+`","count":1,"in_use":0,"available":1,"waiting":0}`, in...)
	d.want(t, "GET", "/l/"+poolA, "", 200, `{"id":"`+poolA+`","count":1,"in_use":0,"available":1,"waiting":0,"hash":"`+hashA+`"}`)
	var lease wire.Lease
	kvslotstest.Must(t, json.Unmarshal([]byte(ask("POST", "/borrow", `{"ttl":30}`, 200, `{"lease":`, in...)), &lease))
	ask("POST", "/renew", `{"ttl":60,"lease":"`+lease.Lease.String()+`"}`, 200, `{"lease":"`+lease.Lease.String(), in...)
	ask("POST", "/return", `{"lease":"`+lease.Lease.String()+`"}`, 200, `{"returned":true}`, in...)
	ask("GET", "", "", 404, `{"error":"no such pool"}`, "Kvslots-Pool", poolB)
	ask("DELETE", "", "", 200, `{"deleted":true}`, in...)

	const missing = `{"error":"header Kvslots-Pool must be a canonical UUID of 36 characters"}`
	ask("GET", "", "", 400, missing)
	ask("GET", "?pools_after="+poolA, "", 400, missing)
	ask("PUT", "", `{}`, 400, missing, "Kvslots-Pool", poolA[1:])
	ask("POST", "/borrow", `{"id":"`+poolA+`","ttl":1}`, 400, missing, "Kvslots-Pool", "")
	d.want(t, "GET", "/l/SELF", "", 400, `{"error":"id must be a canonical UUID of 36 characters"}`)
	if strings.Contains(d.Logs.String(), poolA) {
		t.Errorf("the id is in the logs:\n%s", d.Logs)
	}
}

func TestHead(t *testing.T) {
	d := openFixture(t, openStore(t))
	d.register(t, poolA, 4)
	_, _, got := d.Do(t, "GET", "/l/"+poolA, "")
	code, body, header := d.Do(t, "HEAD", "/l/"+poolA, "")
	if code != 200 || body != "" || header.Get("Content-Length") != got.Get("Content-Length") {
		t.Errorf("HEAD: %d %q, header %v", code, body, header)
	}
}

func TestRefusals(t *testing.T) {
	d := openFixture(t, openStore(t))
	const (
		badID    = `{"error":"id must be a canonical UUID of 36 characters"}`
		badCount = `{"error":"count must be an integer between 0 and 1000"}`
		badTTL   = `{"error":"ttl must be a whole number of seconds, 1 or more"}`
		badWait  = `{"error":"wait must be a whole number of seconds, 0 or more"}`
		badLease = `{"error":"lease must be a canonical UUID of 36 characters"}`
		badJSON  = `{"error":"body must be one JSON object"}`
		tooLarge = `{"error":"body must be at most 64 KiB"}`
		notFound = `{"error":"not found"}`
		noMethod = `{"error":"method not allowed"}`
	)
	long := `{"count":1,"ttl":1}` + strings.Repeat(" ", 64<<10)
	for _, c := range []struct {
		name, method, path, body string
		code                     int
		answer                   string
	}{
		{"short id", "GET", "/l/9f1c", "", 400, badID},
		{"id without dashes", "DELETE", "/l/" + strings.ReplaceAll(poolA, "-", ""), "", 400, badID},
		{"id as urn", "PUT", "/l/urn:uuid:" + poolA, `{"count":1}`, 400, badID},
		{"id in braces", "POST", "/l/%7B" + poolA + "%7D/borrow", `{"ttl":1}`, 400, badID},
		{"id with markup", "POST", "/l/<script>/return", `{}`, 400, badID},
		{"no count", "PUT", "/l/" + poolA, `{}`, 400, badCount},
		{"count too high", "PUT", "/l/" + poolA, `{"count":1001}`, 400, badCount},
		{"no body", "PUT", "/l/" + poolA, ``, 400, badJSON},
		{"trailing data", "PUT", "/l/" + poolA, `{"count":1}{}`, 400, badJSON},
		{"long body", "PUT", "/l/" + poolA, long, 413, tooLarge},
		{"no ttl", "POST", "/l/" + poolA + "/borrow", `{"wait":1}`, 400, badTTL},
		{"ttl in words", "POST", "/l/" + poolA + "/borrow", `{"ttl":"1m"}`, 400, badTTL},
		{"negative wait", "POST", "/l/" + poolA + "/borrow", `{"ttl":1,"wait":-1}`, 400, badWait},
		{"long borrow", "POST", "/l/" + poolA + "/borrow", long, 413, tooLarge},
		{"no lease", "POST", "/l/" + poolA + "/return", `{}`, 400, badLease},
		{"lease in braces", "POST", "/l/" + poolA + "/return", `{"lease":"{` + poolB + `}"}`, 400, badLease},
		{"long return", "POST", "/l/" + poolA + "/return", long, 413, tooLarge},
		{"unknown pool", "POST", "/l/" + poolA + "/borrow", `{"ttl":1}`, 404, `{"error":"no such pool"}`},
		{"return to an unknown pool", "POST", "/l/" + poolA + "/return", `{"lease":"` + poolB + `"}`, 404, `{"error":"no such pool"}`},
		{"no id", "GET", "/l/", "", 404, notFound},
		{"slash at the end", "GET", "/l/" + poolA + "/", "", 404, notFound},
		{"double slash", "GET", "//l/" + poolA, "", 404, notFound},
		{"dots", "GET", "/x/../l/" + poolA, "", 404, notFound},
		{"renew without a lease", "POST", "/l/" + poolA + "/renew", `{"ttl":1}`, 400, badLease},
		{"renew in braces", "POST", "/l/" + poolA + "/renew", `{"lease":"{` + poolB + `}","ttl":1}`, 400, badLease},
		{"renew without a ttl", "POST", "/l/" + poolA + "/renew", `{"lease":"` + poolB + `"}`, 400, badTTL},
		{"renew for nothing", "POST", "/l/" + poolA + "/renew", `{"lease":"` + poolB + `","ttl":0}`, 400, badTTL},
		{"renew at a bad id", "POST", "/l/9f1c/renew", `{"lease":"` + poolB + `","ttl":1}`, 400, badID},
		{"renew with an array", "POST", "/l/" + poolA + "/renew", `[]`, 400, badJSON},
		{"long renewal", "POST", "/l/" + poolA + "/renew", long, 413, tooLarge},
		{"renew in an unknown pool", "POST", "/l/" + poolA + "/renew", `{"lease":"` + poolB + `","ttl":1}`, 404, `{"error":"no such pool"}`},
		{"unknown action", "POST", "/l/" + poolA + "/extend", `{}`, 404, notFound},
		{"deeper", "POST", "/l/" + poolA + "/borrow/x", `{}`, 404, notFound},
		{"method of a pool", "PATCH", "/l/" + poolA, `{}`, 405, noMethod},
		{"method of an action", "GET", "/l/" + poolA + "/borrow", "", 405, noMethod},
		{"method of a renewal", "PUT", "/l/" + poolA + "/renew", "{}", 405, noMethod},
		{"unknown method", "BREW", "/l/" + poolA, "", 405, noMethod},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.want(t, c.method, c.path, c.body, c.code, c.answer)
		})
	}
}

func TestAllow(t *testing.T) {
	d := openFixture(t, openStore(t))
	for path, want := range map[string]string{
		"/l/" + poolA:             "GET, HEAD, PUT, DELETE",
		"/l/" + poolA + "/borrow": "POST",
		"/l/" + poolA + "/return": "POST",
		"/l/" + poolA + "/renew":  "POST",
	} {
		code, _, header := d.Do(t, "OPTIONS", path, "")
		if got := header.Get("Allow"); code != http.StatusMethodNotAllowed || got != want {
			t.Errorf("OPTIONS %s: %d, Allow %q, want %q", path, code, got, want)
		}
	}
}
