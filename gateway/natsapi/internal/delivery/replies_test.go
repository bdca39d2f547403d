package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestAllowedReplies(t *testing.T) {
	r := &replies{own: "_INBOX_gateway.x", further: []string{"app.inbox", "answers", "_KVSLOTS"}}
	for reply, want := range map[string]bool{
		"_INBOX.x":                         true,
		"_INBOX.x.y":                       true,
		"_INBOX_UABC.x.y":                  true,
		"_R_.Xa7Gh2.b9":                    true,
		"app.inbox.x":                      true,
		"answers.x.y":                      true,
		"_INBOX_gateway.y.z":               true,
		"_INBOX_gateway.x.y":               false, // the service's own
		"_KVSLOTS.x.y":                     false, // a gateway's
		"_INBOX":                           false,
		"_INBOX.":                          false,
		"_INBOX..x":                        false,
		"_INBOX.*":                         false,
		"_INBOX.x.>":                       false,
		"_INBOX.x y":                       false,
		"_INBOX.x\r\nPUB":                  false,
		"_INBOXES.x":                       false,
		"_inbox.x":                         false,
		"._INBOX.x":                        false,
		"x._INBOX.y":                       false,
		"_R_":                              false,
		"_GR_.abcdef.ghijkl._INBOX.x":      false,
		"_GR_.abcdef.ghijkl.$KV.kvslots.x": false,
		"$GR.abcd._INBOX.x":                false,
		"$KV.kvslots.p.x.cfg":              false,
		"$JS.API.STREAM.DELETE.KV_kvslots": false,
		"$JS.ACK.x":                        false,
		"$SRV.PING":                        false,
		"$SYS.x":                           false,
		"$_INBOX.x":                        false,
		"kvslots.delete":                   false,
		"kvslots":                          false,
		"app.inbox":                        false,
		"app.inboxes.x":                    false,
		"app.x":                            false,
		"other.x":                          false,
		"other":                            false,
	} {
		if got := r.allowed(reply); got != want {
			t.Errorf("%q: %v, want %v", reply, got, want)
		}
	}
}

// One client's requests have the same inbox, whatever its library appends for each.
func TestClientOf(t *testing.T) {
	for reply, want := range map[string]string{
		"_INBOX.abc.1":    "_INBOX.abc",
		"_INBOX.abc":      "_INBOX",
		"_INBOX_UA.abc.1": "_INBOX_UA",
		"_INBOX_UA.def":   "_INBOX_UA",
		"app.inbox.abc.1": "app.inbox.abc",
		"_R_.abc.def":     "_R_.abc",
		"":                noInbox,
	} {
		if got := ClientOf(reply); got != want {
			t.Errorf("%q is of the client %q, want %q", reply, got, want)
		}
	}
}

func TestCheckReplyPrefix(t *testing.T) {
	for _, prefix := range []string{"answers", "app.inbox", "_INBOX", "_INBOX_UABC", "inbox-1.a_b", "kvslots-clients"} {
		if err := CheckReplyPrefix(prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, prefix := range []string{
		"", ".", "a.", ".a", "a..b", "a.*", ">", "a b", "a\tb", "$", "$KV", "$KV.kvslots", "$JS.API", "$SRV", "$x",
		"kvslots", "kvslots.x", "_R_", "_GR_", "_GR_.abcdef.ghijkl", "_KVSLOTS", "_KVSLOTS.x",
	} {
		if err := CheckReplyPrefix(prefix); err == nil {
			t.Errorf("%q passes", prefix)
		}
	}
}

// A flood of refused requests is not a flood of log lines, and no line has their reply
// subjects.
func TestRefusedRepliesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logtest.Log
		r := &replies{own: "_INBOX", log: logged.Logger(), logged: rate.Sometimes{Interval: refusalsEvery}}
		for want := 1; want <= 2; want++ {
			for range 3 {
				if r.mayGoTo("$KV.secret") {
					t.Error("served")
				}
			}
			if text := logged.String(); strings.Count(text, "requests dropped") != want || strings.Contains(text, "secret") {
				t.Errorf("logged %s, want %d lines", text, want)
			}
			time.Sleep(refusalsEvery)
		}
	})
}
