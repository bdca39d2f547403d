package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	fetchPause   = 50 * time.Millisecond // before the first batch, and between two
	fetchTimeout = time.Second           // from one message of a batch to the next
	fetchBatch   = 1000
)

// Stored is one message of the stream, as a direct get returns it.
type Stored struct {
	Key    string
	Entry  entry.Entry
	Header nats.Header
	Data   []byte
}

// Fetch returns up to limit messages from a sequence on, in order, by a batched
// direct get. Any replica may answer, so the latest messages may be missing. If it
// fails, Fetch returns the error and the messages received before.
func Fetch(ctx context.Context, nc *nats.Conn, from uint64, limit int) (found []Stored, err error) {
	inbox := newInbox(nc)
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string]any{"seq": from, "batch": limit, "next_by_subj": SubjectPrefix + ">"})
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+StreamName, inbox, request); err != nil {
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

func stored(m *nats.Msg) (Stored, error) {
	revision, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Stored{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Stored{}, err
	}
	key := strings.TrimPrefix(m.Header.Get("Nats-Subject"), SubjectPrefix)
	return Stored{key, entry.Parse(key, revision, at, m.Header.Get, m.Data), m.Header, m.Data}, nil
}

// catchUp feeds the peer with entries from direct gets until ctx ends, while a watch is
// being created. A replica that is behind does no harm: a view never goes back.
func (b *Bucket) catchUp(ctx context.Context, o order) {
	for pause(ctx, fetchPause) {
		for {
			var from uint64
			b.Look(func(*peer.Peer, peer.Instant) { from = max(o.From, b.progress.reached+1) })
			found, err := Fetch(ctx, b.nc, from, fetchBatch)
			if err != nil && ctx.Err() == nil {
				b.log.Debug().Err(err).Msg("direct get failed")
			}
			for i := range found {
				e := found[i].Entry
				b.input(o.ctx, func(p *peer.Peer, now peer.Instant) {
					b.progress.reached = max(b.progress.reached, e.Revision)
					p.Fetched(o.Number, e, now)
				})
			}
			if len(found) < fetchBatch {
				break
			}
		}
	}
}
