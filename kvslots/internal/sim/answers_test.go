package sim

import (
	"regexp"
	"slices"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// answerKinds are the kinds of answers to a request. The answer of a request that
// succeeds is "ok", unless successes are given. Each sweep meets the others, but needs
// many seeds for those that are rare.
type answerKinds struct {
	successes   []string
	often, rare []error
}

// answers lists what a request may be answered. TestAnswersAreListed checks that each
// request and each error is listed, and a sweep that it meets no answer but these.
var answers = map[string]answerKinds{
	"Borrow": {
		often: []error{peer.ErrNoSlot, peer.ErrNoPool, peer.ErrMaxWaiters, peer.ErrKeyReused, peer.ErrPlaceKept, peer.ErrUnavailable, peer.ErrClosed, errCrashed, errHungUp},
	},
	"Acquire": {
		often: []error{peer.ErrNoSlot, peer.ErrSessionGone, peer.ErrLimitMismatch, peer.ErrMaxWaiters, peer.ErrPlaceKept, peer.ErrUnavailable, errCrashed, errHungUp},
		rare:  []error{peer.ErrMaxLocks, peer.ErrMaxLocksPerSession, peer.ErrMaxLocksPerOrigin, peer.ErrMaxTombstones, peer.ErrKeyReused, peer.ErrClosed},
	},
	"Enqueue": {
		successes: []string{"ok", "queued"},
		often:     []error{peer.ErrSessionGone, peer.ErrLimitMismatch, peer.ErrAlreadyEnqueued, peer.ErrPlaceKept, peer.ErrUnavailable, errHungUp},
		rare:      []error{peer.ErrMaxLocks, peer.ErrMaxLocksPerSession, peer.ErrMaxLocksPerOrigin, peer.ErrMaxWaiters, peer.ErrMaxTombstones, peer.ErrKeyReused, peer.ErrClosed, errCrashed},
	},
	"Await": {
		often: []error{peer.ErrNoSlot, peer.ErrNotEnqueued, peer.ErrLeaseExpired, peer.ErrSessionGone, peer.ErrPlaceKept, peer.ErrUnavailable, errCrashed, errHungUp},
		rare:  []error{peer.ErrClosed},
	},
	"Return": {
		often: []error{peer.ErrNotHeld, peer.ErrNoPool, peer.ErrSessionGone, peer.ErrUnavailable, errCrashed},
		rare:  []error{peer.ErrClosed},
	},
	"Abandon": {rare: []error{peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"Renew": {
		often: []error{peer.ErrNotHeld, peer.ErrNoPool, peer.ErrUnavailable},
		rare:  []error{peer.ErrSessionGone, peer.ErrClosed, errCrashed},
	},
	"ReleaseOwned": {
		often: []error{peer.ErrNotHeld, peer.ErrNotOwner, peer.ErrAlreadyReleased, peer.ErrUnavailable},
		rare:  []error{peer.ErrClosed, errCrashed},
	},
	"Register":      {often: []error{peer.ErrMaxPools, peer.ErrUnavailable}, rare: []error{peer.ErrClosed, errCrashed}},
	"Delete":        {rare: []error{peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"CreateSession": {often: []error{peer.ErrUnavailable}, rare: []error{peer.ErrMaxSessions, peer.ErrMaxSessionsPerOrigin, peer.ErrMaxTombstones, peer.ErrClosed, errCrashed}},
	"Ping":          {often: []error{peer.ErrSessionGone, peer.ErrUnavailable, errCrashed}, rare: []error{peer.ErrClosed}},
	"EndSession":    {often: []error{peer.ErrSessionGone, peer.ErrUnavailable}, rare: []error{peer.ErrClosed, errCrashed}},
	"ReadStats":     {often: []error{peer.ErrUnavailable}, rare: []error{peer.ErrClosed, errCrashed}},
	"ReadPools":     {rare: []error{peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"ReadPool":      {often: []error{peer.ErrNoPool, peer.ErrUnavailable, errCrashed}, rare: []error{peer.ErrClosed}},
	"ReadPlace":     {often: []error{peer.ErrNotInLine}, rare: []error{peer.ErrNoPool, peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"ReadLease":     {often: []error{peer.ErrNotHeld}, rare: []error{peer.ErrNoPool, peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"SetOut":        {often: []error{peer.ErrNoPool, peer.ErrNoPosition}, rare: []error{peer.ErrMaxOut, peer.ErrMaxLocks, peer.ErrMaxLocksPerOrigin, peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"Evict":         {often: []error{peer.ErrNotHeld, peer.ErrOtherHolder}, rare: []error{peer.ErrNoPool, peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
	"Confirm":       {rare: []error{peer.ErrUnavailable, peer.ErrClosed, errCrashed}},
}

// wantedAnswers returns what a sweep counts for the listed answers.
func wantedAnswers(rare bool) map[string]bool {
	want := map[string]bool{}
	for request, kinds := range answers {
		texts := kinds.successes
		if texts == nil {
			texts = []string{"ok"}
		}
		for _, err := range kinds.often {
			texts = append(texts, err.Error())
		}
		for _, err := range kinds.rare {
			if rare {
				texts = append(texts, err.Error())
			}
		}
		for _, text := range texts {
			want["answer: "+request+" "+text] = true
		}
	}
	return want
}

var (
	requestCase = regexp.MustCompile(`(?m)^\tcase (\w+):$`)
	errorText   = regexp.MustCompile(`(?m)^\s*Err\w+ += errors\.New\("(.*)"\)`)
)

// notDrawn are requests that no client of the simulation makes: the units of package peer
// alone test them.
var notDrawn = []string{"FindPools", "SetLimit"}

// TestAnswersAreListed checks that every request of package peer is listed, and that
// every error of it is an answer to one.
func TestAnswersAreListed(t *testing.T) {
	var requests []string
	for request := range answers {
		requests = append(requests, request)
	}
	for _, request := range inPackagePeer(t, "begin.go", requestCase) {
		if !slices.Contains(append(requests, notDrawn...), request) {
			t.Errorf("request %s is not listed", request)
		}
	}
	texts := map[string]bool{}
	for _, kinds := range answers {
		for _, err := range slices.Concat(kinds.often, kinds.rare) {
			texts[err.Error()] = slices.Contains(knownErrors, err)
		}
	}
	for _, text := range inPackagePeer(t, "*.go", errorText) {
		if !texts[text] {
			t.Errorf("no request is answered %q, or it is not in knownErrors", text)
		}
	}
}

// inPackagePeer returns what a pattern's group matches in files of package peer.
func inPackagePeer(t *testing.T, files string, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	for _, text := range readFiles(t, "../peer/"+files) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
	}
	if len(found) < 10 {
		t.Fatalf("%v matches %q only", pattern, found)
	}
	return found
}
