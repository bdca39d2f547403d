package natsapi

import (
	"iter"
	"slices"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi/internal/admission"
	"github.com/kvslots/kvslots/gateway/natsapi/internal/delivery"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Listener is the server to which the clients of a service connect. It returns the connections
// that are subscribed to a subject, whether one is open, and its address. Listened reports
// whether any is subscribed to a subject, and ClientsReply whether clients may publish to the
// reply subject of what they receive, and may receive what is sent to others.
type Listener = admission.Listener

// Gate connects a Service to the embedded server in its field Server, for nats.InProcessServer.
// While the service has many requests to handle, it leaves further ones with the server.
type Gate = admission.Gate

// isBehind reports whether a subscription has half of the messages that it has room for.
func (s *Service) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		messages, bytes, err := sub.Pending()
		if err == nil && (messages > pendingMessages/2 || bytes > pendingBytes/2) {
			return true
		}
	}
	return false
}

// drops reports whether to drop a request of a flood, since no connection would receive the
// answer: it names no inbox or a made-up one, or the server has disconnected its client. To
// drop it takes a fraction of the time of an answer, and requests of other clients wait behind
// it. waiting is the number of requests that have arrived behind it.
func (s *Service) drops(reply string, waiting int) bool {
	return waiting > floodMessages && s.listener != nil && (reply == "" || !s.listener.Listened(reply))
}

// shed counts a request that is dropped like one that is refused.
func (s *Service) shed(count *counter) {
	busy := wire.StatusOf(wire.ErrBusy)
	s.ops.Events.Failed(busy.Name)
	count.answered.Add(1)
	count.fail(busy)
}

// aim counts the request for the pool or the lock that its call may wait for. It returns
// false if too many requests for that target are open.
func (r *request) aim(call *ops.Call) bool {
	return !call.Grants || r.place.Aim(targetOf(call))
}

func targetOf(call *ops.Call) string {
	if call.Key != "" {
		return call.Key
	}
	return string(call.Pool[:])
}

// Origins iterates over the addresses of the connections that receive the answer, or over the
// inbox.
func (r *request) Origins() iter.Seq[string] {
	s, reply := r.service, r.reply
	return func(yield func(string) bool) {
		if !s.addresses {
			yield("nats " + delivery.ClientOf(reply))
			return
		}
		var tried []string
		for address := range s.connections.Addresses(reply) {
			origin := ops.Origin(address)
			if slices.Contains(tried, origin) {
				continue
			}
			if !yield(origin) {
				return
			}
			tried = append(tried, origin)
		}
	}
}
