package kvslots

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// The search of data directories at the end of tests finds each kind of secret that is
// written into the bucket, as text and in binary.
func TestStoredSecretsAreFound(t *testing.T) {
	dir := t.TempDir()
	srv := natstest.Start(t, dir)
	s := openPeers(t, srv, 1)[0]
	pool := newPool(t, s, 1)
	lease := mustBorrow(t, s, pool).ID()
	session, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute))
	natstest.Must(t, err)
	lock, err := s.Acquire(t.Context(), session, Lock("a"), WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	raw := func(digits string) string {
		id := uuid.MustParse(digits)
		return string(id[:])
	}
	js := srv.Connect()
	before := 0
	for _, c := range []struct {
		kind, text string
		found      bool
	}{
		{"nothing", "", false},
		{"another session", uuid.NewString()[:8] + strings.Repeat("0", 24), false},
		{"pool", pool.String(), true},
		{"pool without hyphens", strings.ReplaceAll(pool.String(), "-", ""), true},
		{"pool in binary", string(pool[:]), true},
		{"lease", lease.String(), true},
		{"lease in capitals", strings.ToUpper(lease.String()), true},
		{"lease in binary", string(lease[:]), true},
		{"session", session, true},
		{"session in capitals", strings.ToUpper(session), true},
		{"session in binary", raw(session), true},
		{"token", lock.Token, true},
		{"half of a token", lock.Token[16:], true},
		{"token in binary", raw(lock.Token), true},
	} {
		natstest.Must(t, natstest.Err(js.RequestWithContext(t.Context(), bucket.SubjectPrefix+"x.foreign", []byte(c.text))))
		found := logtest.SecretsIn(dir)
		if (len(found) > before) != c.found {
			t.Errorf("%s: found %d secrets, and %d before", c.kind, len(found), before)
		}
		before = len(found)
	}
	srv.Stop()
	if err := os.RemoveAll(dir); err != nil { // so that they are not found once more
		t.Fatal(err)
	}
}
