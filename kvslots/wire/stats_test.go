package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/reads"
)

func TestNewStats(t *testing.T) {
	holder := kvslots.HolderStats{Owner: 42, Position: 1, Fence: 7, Age: reads.Duration(1499600 * time.Microsecond), ExpiresIn: reads.Duration(18500 * time.Millisecond)}
	waiter := kvslots.WaiterStats{Owner: 43, Waited: reads.Duration(500 * time.Millisecond)}
	for _, c := range []struct {
		name    string
		stats   kvslots.Stats
		clients int
		want    string
	}{
		{"nothing", kvslots.Stats{}, 0, `{"connections":0,"locks":[],"semaphores":[],"idle_locks":[],"idle_semaphores":[],"pools":[]}`},
		{"everything", kvslots.Stats{
			Sessions: 12,
			Names: []kvslots.PoolDetail{
				{Pool: reads.Pool{Type: reads.TypeLock, Key: "deploy"}, Holders: []kvslots.HolderStats{holder}, Waiters: []kvslots.WaiterStats{waiter, waiter}},
				{Pool: reads.Pool{Type: reads.TypeLock, Key: "next"}, Waiters: []kvslots.WaiterStats{waiter}},
				{Pool: reads.Pool{Type: reads.TypeSemaphore, Key: "rate", State: reads.State{Count: 5}}, Holders: []kvslots.HolderStats{holder}},
			},
			Idle: []reads.Idle{
				{Type: reads.TypeLock, Key: "a", Idle: reads.Duration(time.Minute)},
				{Type: reads.TypeSemaphore, Key: "b", Idle: -reads.Duration(time.Millisecond)},
			},
			Pools: []kvslots.PoolStats{{Hash: reads.Hash{0, 255}, State: kvslots.State{Count: 4, InUse: 1, Available: 3, Waiting: 2}, OldestWait: reads.Duration(2 * time.Second)}},
		}, 2, `{"connections":14,` +
			`"locks":[` +
			`{"key":"deploy","owner_conn_id":42,"lease_expires_in_s":18.5,"waiters":2,"fence":7,"age_s":1.5,"queue":[{"position":1,"waited_s":0.5,"owner_conn_id":43},{"position":2,"waited_s":0.5,"owner_conn_id":43}]},` +
			`{"key":"next","owner_conn_id":0,"lease_expires_in_s":0,"waiters":1,"fence":0,"age_s":0,"queue":[{"position":1,"waited_s":0.5,"owner_conn_id":43}]}],` +
			`"semaphores":[{"key":"rate","limit":5,"holders":1,"waiters":0,"held":[{"position":1,"owner_conn_id":42,"fence":7,"age_s":1.5,"lease_expires_in_s":18.5}],"queue":[]}],` +
			`"idle_locks":[{"key":"a","idle_s":60}],"idle_semaphores":[{"key":"b","idle_s":0}],` +
			`"pools":[{"pool":"00ff0000000000000000000000000000","count":4,"in_use":1,"available":3,"waiting":2,"oldest_wait_s":2}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(NewStats(c.stats, c.clients))
			kvslotstest.Must(t, err)
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
