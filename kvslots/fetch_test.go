package kvslots

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const fetchTimeout = time.Second // from one message of a batch to the next

// fetched is one message of the stream, as a direct get returns it.
type fetched struct {
	Key    string
	Entry  entry.Entry
	Header nats.Header
	Data   []byte
}

// fetch returns up to limit messages from a sequence on, in order, by a batched
// direct get. Any replica may answer, so the latest messages may be missing. If it
// fails, fetch returns the error and the messages received before.
func fetch(ctx context.Context, nc *nats.Conn, from uint64, limit int) (found []fetched, err error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string]any{"seq": from, "batch": limit, "next_by_subj": bucket.SubjectPrefix + ">"})
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+bucket.StreamName, inbox, request); err != nil {
		return nil, err
	}
	for {
		m, err := nextMsg(ctx, sub)
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
		s, err := stored(m)
		if err != nil {
			return found, err
		}
		found = append(found, s)
	}
}

func nextMsg(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

func stored(m *nats.Msg) (fetched, error) {
	revision, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return fetched{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return fetched{}, err
	}
	key := strings.TrimPrefix(m.Header.Get("Nats-Subject"), bucket.SubjectPrefix)
	return fetched{key, entry.Parse(key, revision, at, m.Header.Get, m.Data), m.Header, m.Data}, nil
}
