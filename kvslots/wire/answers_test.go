package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Scripts depend on the names of fields, and those that grep on their order.
func TestAnswers(t *testing.T) {
	id := uuid.MustParse("9F1C2E7A-5B3D-4C8E-A1F0-6D2B9C4E7A01")
	for _, c := range []struct {
		name   string
		answer any
		want   string
	}{
		{"pool", Pool{id, kvslots.State{Count: 4, InUse: 1, Available: 3, Waiting: 2}}, `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","count":4,"in_use":1,"available":3,"waiting":2}`},
		{"shrunk pool", Pool{id, kvslots.State{Count: 2, InUse: 3}}, `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","count":2,"in_use":3,"available":0,"waiting":0}`},
		{"lease", Lease{Lease: id, Position: 3, ExpiresAtUnix: 1781337630, ExpiresIn: 30, Fence: 1 << 52}, `{"lease":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","position":3,"expires_at_unix":1781337630,"expires_in":30,"fence":4503599627370496}`},
		{"negative lease", Lease{Lease: id, ExpiresAtUnix: -1, ExpiresIn: -2, Fence: 1<<64 - 1}, `{"lease":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","position":0,"expires_at_unix":-1,"expires_in":-2,"fence":18446744073709551615}`},
		{"not returned", Returned{}, `{"returned":false}`},
		{"returned", Returned{Returned: true}, `{"returned":true}`},
		{"deleted", Deleted{Deleted: true}, `{"deleted":true}`},
		{"failure", Failure{Error: "no such pool"}, `{"error":"no such pool"}`},
		{"failure with a code", Failure{Error: "not_held", Detail: "d"}, `{"error":"not_held","detail":"d"}`},
		{"session", NewSession("ab", 20*time.Second), `{"session_id":"ab","idle_timeout_s":20}`},
		{"grant", NewGrant("ok", kvslots.Grant{Token: "ab", TTL: 2999 * time.Millisecond}), `{"status":"ok","token":"ab","lease_ttl_s":2}`},
		{"short grant", NewGrant("acquired", kvslots.Grant{Token: "ab", TTL: 999 * time.Millisecond}), `{"status":"acquired","token":"ab","lease_ttl_s":0}`},
		{"timeout", NotGranted{Status: "timeout"}, `{"status":"timeout"}`},
		{"renewed", NewRenewed(29999 * time.Millisecond), `{"remaining_s":29}`},
		{"nothing", Empty{}, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(c.answer)
			kvslotstest.Must(t, err)
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if marshalled, err := json.Marshal(c.answer); err != nil || string(marshalled) != c.want {
				t.Errorf("encoding/json has %s, %v\nwant %s", marshalled, err, c.want)
			}
		})
	}
}
