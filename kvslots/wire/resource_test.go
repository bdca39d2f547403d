package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

const (
	testToken = "00065f1c2e7a5b3d4c8ea1f06d2b9c4e"

	secondsText = " must be a whole number of seconds, 0 or more"
	limitText   = "limit must be an integer between 1 and 65535"
	labelText   = "label must be 0 to 64 printable characters"
	tokenText   = "token must be 32 lowercase hexadecimal digits"
	keyText     = "key must be 1 to 256 bytes of UTF-8 without white space, control or invisible characters"
	sessionText = "session must be the id of a session"
	emptyText   = "body must be empty, or an object without fields"
	onlyText    = "body must be an object with no fields but "
)

// grantParams are the parameters of what takes a slot.
type grantParams struct {
	ttl, wait time.Duration
	limit     int
}

// granted returns the parameters of an operation on a kind of resource.
func granted(kind kvslots.Kind, operation, body string) (grantParams, error) {
	p, err := parsed(body, grantBodies[kind][operation])
	return grantParams{p.TTL, p.Wait, p.Resource().Limit}, err
}

// strictBodies are bodies that every strict parser refuses.
var strictBodies = append([]struct{ name, body, want string }{
	{"invalid UTF-8", "{\"\xff\":1}", malformed},
	{"invalid UTF-8 in a text", "{\"token\":\"\xff\"}", malformed},
}, notObjects[1:]...) // an empty body may be valid

func TestStrictBodies(t *testing.T) {
	for _, c := range strictBodies {
		t.Run(c.name, func(t *testing.T) {
			_, err := parsed(c.body, strictly())
			checkText(t, err, c.want)
		})
	}
}

func TestAcquire(t *testing.T) {
	const (
		most = maxSeconds * time.Second
		ofL  = onlyText + "acquire_timeout_s, lease_ttl_s, label, uncounted"
		ofS  = onlyText + "acquire_timeout_s, limit, lease_ttl_s, label, uncounted"
	)
	lock, semaphore := kvslots.KindLock, kvslots.KindSemaphore
	for _, c := range []struct {
		name, body string
		kind       kvslots.Kind
		want       grantParams
		wantErr    string
	}{
		{"lock", `{"acquire_timeout_s":25,"lease_ttl_s":30}`, lock, grantParams{30 * time.Second, 25 * time.Second, 1}, ""},
		{"lock without ttl", `{"acquire_timeout_s":0}`, lock, grantParams{0, 0, 1}, ""},
		{"lock with a ttl of 0", `{"acquire_timeout_s":1,"lease_ttl_s":0}`, lock, grantParams{0, time.Second, 1}, ""},
		{"semaphore", `{"acquire_timeout_s":1,"limit":65535,"lease_ttl_s":2}`, semaphore, grantParams{2 * time.Second, time.Second, 65535}, ""},
		{"any limit", `{"acquire_timeout_s":1,"limit":2,"any_limit":true}`, semaphore, grantParams{}, ofS},
		{"any limit of a lock", `{"acquire_timeout_s":1,"any_limit":true}`, lock, grantParams{}, ofL},
		{"blanks and escapes", " {\n\"\\u0061cquire_timeout_s\" : 1 }\r\n", lock, grantParams{0, time.Second, 1}, ""},
		{"huge", `{"acquire_timeout_s":99999999999999999999,"lease_ttl_s":99999999999999999999}`, lock, grantParams{most, most, 1}, ""},
		{"minus zero", `{"acquire_timeout_s":-0}`, lock, grantParams{0, 0, 1}, ""},
		{"no body", ``, lock, grantParams{}, malformed},
		{"no fields", `{}`, lock, grantParams{limit: 1}, "acquire_timeout_s" + secondsText},
		{"null", `{"acquire_timeout_s":null}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"negative", `{"acquire_timeout_s":-1}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"fraction", `{"acquire_timeout_s":1.5}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"exponent", `{"acquire_timeout_s":15e-1}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"string", `{"acquire_timeout_s":"1"}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"array", `{"acquire_timeout_s":[1]}`, lock, grantParams{}, "acquire_timeout_s" + secondsText},
		{"ttl of null", `{"acquire_timeout_s":1,"lease_ttl_s":null}`, lock, grantParams{}, "lease_ttl_s" + secondsText},
		{"ttl negative", `{"acquire_timeout_s":1,"lease_ttl_s":-1}`, lock, grantParams{}, "lease_ttl_s" + secondsText},
		{"ttl fraction", `{"acquire_timeout_s":1,"lease_ttl_s":0.5}`, lock, grantParams{}, "lease_ttl_s" + secondsText},
		{"limit of a lock", `{"acquire_timeout_s":1,"limit":1}`, lock, grantParams{}, ofL},
		{"unknown field", `{"acquire_timeout_s":1,"hunter2":1}`, lock, grantParams{}, ofL},
		{"other case", `{"Acquire_timeout_s":1}`, lock, grantParams{}, ofL},
		{"given twice", `{"acquire_timeout_s":1,"acquire_timeout_s":1}`, lock, grantParams{}, "acquire_timeout_s must be given once"},
		{"given twice, once escaped", `{"acquire_timeout_s":1,"acquire_timeout_\u0073":1}`, lock, grantParams{}, "acquire_timeout_s must be given once"},
		{"unknown field twice", `{"hunter2":1,"hunter2":1}`, lock, grantParams{}, ofL},
		{"unknown field of a semaphore", `{"acquire_timeout_s":1,"limit":1,"x":null}`, semaphore, grantParams{}, ofS},
		{"no limit", `{"acquire_timeout_s":1}`, semaphore, grantParams{}, limitText},
		{"limit 0", `{"acquire_timeout_s":1,"limit":0}`, semaphore, grantParams{}, limitText},
		{"limit negative", `{"acquire_timeout_s":1,"limit":-1}`, semaphore, grantParams{}, limitText},
		{"limit too high", `{"acquire_timeout_s":1,"limit":65536}`, semaphore, grantParams{}, limitText},
		{"limit far too high", `{"acquire_timeout_s":1,"limit":99999999999999999999}`, semaphore, grantParams{}, limitText},
		{"limit in words", `{"acquire_timeout_s":1,"limit":"1"}`, semaphore, grantParams{}, limitText},
		{"limit of null", `{"acquire_timeout_s":1,"limit":null}`, semaphore, grantParams{}, limitText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := granted(c.kind, subjects.Acquire, c.body)
			checkText(t, err, c.wantErr)
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestEnqueue(t *testing.T) {
	lock, semaphore := kvslots.KindLock, kvslots.KindSemaphore
	for _, c := range []struct {
		name, body string
		kind       kvslots.Kind
		want       grantParams
		wantErr    string
	}{
		{"lock without a body", ``, lock, grantParams{limit: 1}, ""},
		{"lock without fields", `{}`, lock, grantParams{limit: 1}, ""},
		{"lock", `{"lease_ttl_s":5}`, lock, grantParams{ttl: 5 * time.Second, limit: 1}, ""},
		{"semaphore", `{"limit":3}`, semaphore, grantParams{limit: 3}, ""},
		{"semaphore without a body", ``, semaphore, grantParams{}, malformed},
		{"semaphore without fields", `{}`, semaphore, grantParams{}, limitText},
		{"timeout", `{"timeout_s":1}`, lock, grantParams{}, onlyText + "lease_ttl_s, label"},
		{"limit of a lock", `{"limit":1}`, lock, grantParams{}, onlyText + "lease_ttl_s, label"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := granted(c.kind, subjects.Enqueue, c.body)
			checkText(t, err, c.wantErr)
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestWait(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       time.Duration
		wantErr    string
	}{
		{"some", `{"timeout_s":9}`, 9 * time.Second, ""},
		{"none", `{"timeout_s":0}`, 0, ""},
		{"no body", ``, 0, malformed},
		{"no field", `{}`, 0, "timeout_s" + secondsText},
		{"another's field", `{"acquire_timeout_s":1}`, 0, onlyText + "timeout_s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, grantBodies[kvslots.KindLock][subjects.Wait])
			checkText(t, err, c.wantErr)
			if got.Wait != c.want {
				t.Errorf("got %v, want %v", got.Wait, c.want)
			}
		})
	}
}

func TestReleaseAndRenew(t *testing.T) {
	for _, c := range []struct{ name, token, wantErr string }{
		{"token", `"` + testToken + `"`, ""},
		{"escaped", `"\u0030` + testToken[1:] + `"`, ""},
		{"short", `"` + testToken[1:] + `"`, tokenText},
		{"long", `"` + testToken + `0"`, tokenText},
		{"upper case", `"` + strings.ToUpper(testToken) + `"`, tokenText},
		{"no hexadecimal digit", `"g` + testToken[1:] + `"`, tokenText},
		{"another script's digit", `"٣` + testToken[2:] + `"`, tokenText},
		{"number", `1`, tokenText},
		{"null", `null`, tokenText},
		{"empty", `""`, tokenText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(`{"token":`+c.token+`}`, grantBodies[kvslots.KindLock][subjects.Release])
			checkText(t, err, c.wantErr)
			if err == nil && got.Token != testToken {
				t.Errorf("token %q", got.Token)
			}
			_, err = parsed(`{"lease_ttl_s":1,"token":`+c.token+`}`, grantBodies[kvslots.KindLock][subjects.Renew])
			checkText(t, err, c.wantErr)
		})
	}
	for _, c := range []struct {
		name, body string
		ttl        time.Duration
		wantErr    string
	}{
		{"ttl", `{"token":"` + testToken + `","lease_ttl_s":7}`, 7 * time.Second, ""},
		{"no ttl", `{"token":"` + testToken + `"}`, 0, ""},
		{"no body", ``, 0, malformed},
		{"no token", `{"lease_ttl_s":7}`, 0, tokenText},
		{"ttl in words", `{"token":"` + testToken + `","lease_ttl_s":"7s"}`, 0, "lease_ttl_s" + secondsText},
		{"unknown field", `{"token":"` + testToken + `","ttl":7}`, 0, onlyText + "token, lease_ttl_s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, grantBodies[kvslots.KindLock][subjects.Renew])
			checkText(t, err, c.wantErr)
			if err == nil && got.TTL != c.ttl {
				t.Errorf("ttl %v, want %v", got.TTL, c.ttl)
			}
		})
	}
	_, err := parsed(``, grantBodies[kvslots.KindLock][subjects.Release])
	checkText(t, err, malformed)
}

func TestEmpty(t *testing.T) {
	for body, want := range map[string]string{
		``: "", `{}`: "", ` { } `: "", `{"idle_timeout_s":1}`: emptyText, `[]`: malformed, `null`: malformed,
	} {
		_, err := parsed(body, PingSession.body)
		checkText(t, err, want)
	}
}

func TestSessionAndKey(t *testing.T) {
	type place struct{ session, key string }
	for _, c := range []struct {
		name, body string
		want       place
		wantErr    string
	}{
		{"both", `{"session":"s","key":"k"}`, place{"s", "k"}, ""},
		{"a slash", `{"key":"a/b","session":"s"}`, place{"s", "a/b"}, ""},
		{"a surrogate pair", `{"key":"\ud83d\udd12","session":"s"}`, place{"s", "🔒"}, ""},
		{"a replacement character", `{"key":"\ufffd","session":"s"}`, place{"s", "\ufffd"}, ""},
		{"half of a surrogate pair", `{"key":"\uD83D","session":"s"}`, place{}, keyText},
		{"no session", `{"key":"k"}`, place{}, sessionText},
		{"empty session", `{"key":"k","session":""}`, place{}, sessionText},
		{"session of null", `{"key":"k","session":null}`, place{}, sessionText},
		{"session twice", `{"key":"k","session":"a","session":"b"}`, place{}, "session must be given once"},
		{"key with a zero-width space", `{"key":"a\u200bb","session":"s"}`, place{}, keyText},
		{"key with a zero-width joiner", `{"key":"a\u200db","session":"s"}`, place{}, keyText},
		{"key with a byte order mark", `{"key":"\ufeffa","session":"s"}`, place{}, keyText},
		{"key with a change of direction", `{"key":"a\u202eb","session":"s"}`, place{}, keyText},
		{"key with an isolated direction", `{"key":"a\u2066b","session":"s"}`, place{}, keyText},
		{"key with a filler", `{"key":"a\u3164b","session":"s"}`, place{}, keyText},
		{"key with a tag", `{"key":"a\udb40\udc41","session":"s"}`, place{}, keyText},
		{"no key", `{"session":"s"}`, place{}, keyText},
		{"key twice", `{"session":"s","key":"k","key":"k"}`, place{}, "key must be given once"},
		{"key of a number", `{"session":"s","key":1}`, place{}, keyText},
		{"another field", `{"session":"s","key":"k","x":1}`, place{}, emptyText},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parsed(c.body, PingSession.body, targetFields[aLock]...)
			got := place{p.Session, p.Key}
			checkText(t, err, c.wantErr)
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"k", "a/b", "ä%?#", "..", strings.Repeat("k", 256), "🔒"} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{
		"", strings.Repeat("k", 257), strings.Repeat("ä", 129), "a b", "a\tb", "a\x00b", "a\x7fb", "a\u0085b", "a\u00a0b", "a\u2028b", "\xff",
	} {
		checkText(t, CheckKey(key), keyText)
	}
}
