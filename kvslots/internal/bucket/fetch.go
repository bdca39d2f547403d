package bucket

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
)

const (
	fetchSubject = "$JS.API.STREAM.MSG.GET." + StreamName
	maxFetched   = 1 << 13                // sequences that a fetch may have to read when it begins
	fetchWindow  = 128                    // requests of a fetch that are under way
	fetchAgain   = 100 * time.Millisecond // without an answer, after which a fetch asks again
	fetchPause   = 5 * time.Millisecond   // after the answer that the stream has no later entry
	noFetch      = 500 * time.Millisecond // without any answer, after which a consumer reads instead
)

// fetch reads by requests for single entries, until the reading is over. The stream's leader
// answers them. So a short catch-up needs neither the meta leader, which creates consumers, nor
// waits for a replica that is behind, or is cut off, as that of a consumer may be.
//
// Each request is for the first entry at or above a sequence, so an answer shows that nothing is
// left of what lies between. A deposed leader may answer, too: what it has is the beginning of the
// stream, and it has no entry above that.
type fetch struct {
	r       *reading
	inbox   string
	sub     *nats.Subscription
	last    uint64                             // the stream's last sequence when the reading began
	next    uint64                             // the first sequence that is not read
	asked   uint64                             // the first sequence for which there is no request
	answers map[uint64]*jetstream.RawStreamMsg // by the sequence asked for; nil: there is no entry yet
}

func newFetch(r *reading, last uint64) (f *fetch, err error) {
	f = &fetch{
		r: r, inbox: newInbox(r.b.nc), last: last, next: r.order.From, asked: r.order.From,
		answers: map[uint64]*jetstream.RawStreamMsg{},
	}
	f.sub, err = r.b.nc.SubscribeSync(f.inbox + ".*")
	return f, err
}

// run blocks until the reading is over.
func (f *fetch) run() {
	ctx, b := f.r.order.ctx, f.r.b
	defer func() { _ = f.sub.Unsubscribe() }()
	for began, answered := b.now(), false; ctx.Err() == nil; {
		f.ask()
		asked, cancel := context.WithTimeout(ctx, fetchAgain)
		m, err := f.sub.NextMsgWithContext(asked)
		cancel()
		switch {
		case err == nil:
			answered = true
			f.note(m)
			f.deliver()
		case !answered && b.now().Sub(began) > noFetch:
			b.noFetch = true
			f.r.lost("nothing answers requests for entries")
		default:
			f.asked = f.next
		}
		if b.missesFeed(unfedTime) {
			f.r.lost("the feed delivers nothing")
		}
	}
}

// ask sends requests: for the sequences that the stream had, and then for one at a time.
func (f *fetch) ask() {
	for ; f.asked <= max(f.next, min(f.last, f.next+fetchWindow-1)); f.asked++ {
		_ = f.r.b.nc.PublishRequest(fetchSubject, fmt.Sprint(f.inbox, ".", f.asked), fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, f.asked))
	}
}

// note notes an answer, unless it is an error other than that there is no such entry.
func (f *fetch) note(m *nats.Msg) {
	var answer struct {
		Message *struct {
			Sequence uint64    `json:"seq"`
			Subject  string    `json:"subject"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
		Error struct {
			Code int `json:"err_code"`
		} `json:"error"`
	}
	asked, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil || asked < f.next || json.Unmarshal(m.Data, &answer) != nil {
		return
	}
	switch stored := answer.Message; {
	case stored != nil:
		header, err := nats.DecodeHeadersMsg(stored.Header)
		if err != nil && len(stored.Header) > 0 {
			f.r.lost("an entry with a malformed header")
			return
		}
		f.answers[asked] = &jetstream.RawStreamMsg{Subject: stored.Subject, Sequence: stored.Sequence, Header: header, Data: stored.Data, Time: stored.Time}
	case answer.Error.Code == noMessageFound:
		f.answers[asked] = nil
	}
}

const noMessageFound = 10037

// deliver feeds the peer the entries that are next.
func (f *fetch) deliver() {
	for s, ok := f.answers[f.next]; ok; s, ok = f.answers[f.next] {
		if s == nil {
			delete(f.answers, f.next)
			f.last, f.asked = f.next, f.next
			clock.Sleep(f.r.order.ctx, fetchPause)
			return
		}
		f.r.deliver(s, max(f.last, s.Sequence)-s.Sequence)
		for ; f.next <= s.Sequence; f.next++ {
			delete(f.answers, f.next)
		}
		f.asked = max(f.asked, f.next)
	}
}
