package kvslots

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// stored is one message of the stream, got directly.
type stored struct {
	subject  string
	sequence uint64
	at       time.Time
	header   nats.Header
	data     []byte
}

// getBatch gets the messages from a sequence on, in order (ADR-31, batched
// direct gets). Any replica answers, so what comes may be old, but it is never
// wrong.
func getBatch(nc *nats.Conn, from uint64, limit int) ([]stored, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string]any{"seq": from, "batch": limit, "next_by_subj": subjectPrefix + ">"})
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+streamName, inbox, request); err != nil {
		return nil, err
	}
	var found []stored
	for {
		m, err := sub.NextMsg(heartbeat)
		if err != nil {
			return found, err
		}
		switch m.Header.Get("Status") {
		case "":
		case "204", "404": // the end of the batch, or nothing there
			return found, nil
		default:
			return found, errors.New("direct get: " + m.Header.Get("Description"))
		}
		s := stored{subject: m.Header.Get("Nats-Subject"), header: m.Header, data: m.Data}
		if s.sequence, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
			return found, err
		}
		if s.at, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err != nil {
			return found, err
		}
		found = append(found, s)
	}
}
