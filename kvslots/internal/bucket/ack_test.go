package bucket

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

func TestParseAck(t *testing.T) {
	for text, want := range map[string]peer.Ack{
		`{"stream":"KV_kvslots","seq":17}`:                   {Outcome: peer.Written, Revision: 17},
		`{"stream":"KV_kvslots","domain":"d\"","seq":17}`:    {Outcome: peer.Written, Revision: 17},
		`{"stream":"KV_kvslots","seq":17,"duplicate":true}`:  {Outcome: peer.Written, Revision: 17},
		`{"stream":"KV_kvslots","seq":0}`:                    {Outcome: peer.Unknown},
		`{"stream":"KV_kvslots","seq":}`:                     {Outcome: peer.Unknown},
		``:                                                   {Outcome: peer.Unknown},
		refused(400, 10071, "wrong last sequence: 5"):        {Outcome: peer.Conflict, Revision: 5},
		refused(400, 10071, "wrong last sequence: 0"):        {Outcome: peer.Conflict},
		refused(400, 10071, `wrong \"last\" sequence: 5`):    {Outcome: peer.Conflict, Revision: 5},
		refused(400, 10071, "wrong last sequence"):           {Outcome: peer.InFlight},
		refused(400, 10164, "wrong last sequence"):           {Outcome: peer.InFlight},
		refused(503, 10163, "temporarily unavailable"):       {Outcome: peer.NotNow, Reason: "JetStream refuses writes (temporarily unavailable)"},
		refused(429, 10167, "too many requests"):             {Outcome: peer.NotNow, Reason: "JetStream refuses writes (too many requests)"},
		refused(400, 10165, "invalid per-message TTL"):       {Outcome: peer.Never, Reason: "JetStream refuses writes (invalid per-message TTL)"},
		refused(500, 10077, "maximum messages exceeded"):     {Outcome: peer.Never, Reason: "JetStream refuses writes (maximum messages exceeded): raise its storage limit, or free storage"},
		`{"error":{"code":400,"err_code":10071,"description`: {Outcome: peer.Unknown},
	} {
		if got := parseAck(&nats.Msg{Data: []byte(text)}); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	none := nats.NewMsg("")
	none.Header.Set("Status", "503")
	if got := parseAck(none); got.Outcome != peer.NotNow {
		t.Errorf("no responders: %+v", got)
	}
}

func refused(status, code int, description string) string {
	return `{"error":{"code":` + strconv.Itoa(status) + `,"err_code":` + strconv.Itoa(code) + `,"description":"` + description + `"},"stream":"KV_kvslots","seq":0}`
}

// scanAck parses the answers of a real server, without encoding/json.
func TestScanAckReadsTheServer(t *testing.T) {
	nc := natstest.Start(t, "").Connect()
	js := natstest.JetStream(t, nc)
	natstest.Must(t, natstest.Err(openStream(t.Context(), js, 1)))
	m := nats.NewMsg(SubjectPrefix + "k")
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	var written uint64
	for i := range 2 {
		answer, err := nc.RequestMsgWithContext(t.Context(), m)
		natstest.Must(t, err)
		if _, ok := scanAck(answer.Data); !ok {
			t.Errorf("not read: %s", answer.Data)
		}
		switch a := parseAck(answer); {
		case i == 0 && a.Outcome == peer.Written:
			written = a.Revision
		case i == 1 && a == peer.Ack{Outcome: peer.Conflict, Revision: written}:
		default:
			t.Errorf("%s is read as %+v", answer.Data, a)
		}
	}
}
