package dflockdtcp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/reads"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	replyOK          = "ok"
	replyError       = "error"
	replyAuth        = "error_auth"
	replyDraining    = "error_draining"
	replyMaxLocks    = "error_max_locks"
	replyMaxWaiters  = "error_max_waiters"
	replyNotEnqueued = "error_not_enqueued"
)

// refusals are the replies to errors, by the name of their wire.Status. The reply to others is
// replyError.
var refusals = map[string]string{
	"draining":              replyDraining,
	"max_locks":             replyMaxLocks,
	"max_locks_per_session": replyMaxLocks,
	"max_locks_per_ip":      replyMaxLocks,
	"max_waiters":           replyMaxWaiters,
	"max_waiters_total":     replyMaxWaiters,
	"max_waiters_per_ip":    replyMaxWaiters,
	"limit_mismatch":        "error_limit_mismatch",
	"already_enqueued":      "error_already_enqueued",
	"not_enqueued":          replyNotEnqueued,
	"lease_expired":         "error_lease_expired",
}

func refusalOf(name string) string {
	if reply, ok := refusals[name]; ok {
		return reply
	}
	return replyError
}

func replyTo(call *ops.Call) string {
	switch answer := call.Answer.(type) {
	case wire.Grant:
		return answer.Status + " " + answer.Token + " " + strconv.FormatInt(answer.LeaseTTL, 10)
	case wire.NotGranted:
		return answer.Status
	case wire.Renewed:
		return replyOK + " " + strconv.FormatInt(answer.Remaining, 10)
	case wire.Stats:
		return replyOK + " " + string(encodeStats(answer, maxStats))
	}
	return replyOK
}

// kindOf returns the first word of a reply, for metrics and logs.
func kindOf(reply string) string {
	kind, _, _ := strings.Cut(reply, " ")
	return kind
}

// maxStats is the maximal length of the JSON of statistics: that of 10,000 locks with names of usual length.
const maxStats = 1<<20 - len(replyOK+" \n")

// stats has the fields of dflockd's statistics, and truncated.
type stats struct {
	Connections    int              `json:"connections"`
	Locks          []lockStats      `json:"locks"`
	Semaphores     []semaphoreStats `json:"semaphores"`
	IdleLocks      []reads.Idle     `json:"idle_locks"`
	IdleSemaphores []reads.Idle     `json:"idle_semaphores"`
	Truncated      bool             `json:"truncated,omitempty"` // entries are left out
}

type lockStats struct {
	Key            string         `json:"key"`
	Owner          uint64         `json:"owner_conn_id"`
	LeaseExpiresIn reads.Duration `json:"lease_expires_in_s"`
	Waiters        int            `json:"waiters"`
}

type semaphoreStats struct {
	Key     string `json:"key"`
	Limit   int    `json:"limit"`
	Holders int    `json:"holders"`
	Waiters int    `json:"waiters"`
}

// encodeStats returns statistics as JSON. Entries that would make it longer than most bytes
// are left out, the last ones first, and the answer says so.
func encodeStats(of wire.Stats, most int) []byte {
	room := most - len(`{"connections":,"locks":[],"semaphores":[],"idle_locks":[],"idle_semaphores":[],"truncated":true}`) - len(strconv.Itoa(of.Connections))
	s := stats{Connections: of.Connections}
	locks := slices.DeleteFunc(slices.Clone(of.Locks), func(l wire.LockStats) bool { return l.Dialect != "" }) // Forrst's, which are other names
	idleLocks := slices.DeleteFunc(slices.Clone(of.IdleLocks), func(l reads.Idle) bool { return l.Dialect != "" })
	s.Locks = fitting(locks, &room, func(l wire.LockStats) lockStats {
		return lockStats{l.Key, l.Owner, l.LeaseExpiresIn, l.Waiters}
	})
	s.Semaphores = fitting(of.Semaphores, &room, func(l wire.SemaphoreStats) semaphoreStats {
		return semaphoreStats{l.Key, l.Limit, l.Holders, l.Waiters}
	})
	idle := func(l reads.Idle) reads.Idle { return l }
	s.IdleLocks = fitting(idleLocks, &room, idle)
	s.IdleSemaphores = fitting(of.IdleSemaphores, &room, idle)
	s.Truncated = room < 0
	encoded, _ := wire.Encode(s) // does not fail for texts and numbers
	return encoded
}

// fitting returns the entries that fit into room, which it reduces.
func fitting[From, To any](entries []From, room *int, convert func(From) To) []To {
	list := []To{}
	for _, entry := range entries {
		converted := convert(entry)
		encoded, _ := wire.Encode(converted)
		if *room -= len(encoded) + len(","); *room < 0 {
			break
		}
		list = append(list, converted)
	}
	return list
}
