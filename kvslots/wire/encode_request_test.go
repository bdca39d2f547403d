package wire

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestRequest(t *testing.T) {
	const id = `"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"`
	pool, count := uuid.MustParse(id[1:37]), 0
	for want, r := range map[string]Request{
		`{}`:          {},
		`{"count":0}`: {Count: &count},
		`{"id":` + id + `,"lease":` + id + `,"ttl":30}`: {ID: &pool, Lease: &pool, TTL: 30},
		`{"id":` + id + `,"ttl":1,"wait":2}`:            {ID: &pool, TTL: 1, Wait: 2},
	} {
		if got := string(r.Encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2} {
		if got := Seconds(d); got != want {
			t.Errorf("%v are %d s", d, got)
		}
	}
}
