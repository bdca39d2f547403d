package delivery

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
)

// probeTimeout bounds the wait for the result of a probe. After that the client counts as
// alive.
const probeTimeout = time.Second

// The header fields of a message that the server traces instead of delivering it (NATS,
// "Message Tracing", since 2.11).
const (
	traceDestination = "Nats-Trace-Dest"
	traceOnly        = "Nats-Trace-Only"
)

// listens returns Unheard if nothing is subscribed to a reply subject any more. It sends a
// message that the server traces and does not deliver.
func (d *deliveries) listens(reply string) Outcome {
	subject, result, done := d.expect()
	defer done()
	probe := nats.NewMsg(reply)
	probe.Header.Set(traceDestination, subject)
	probe.Header.Set(traceOnly, "true")
	if d.nc.PublishMsg(probe) != nil {
		return Unknown
	}
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	select {
	case m := <-result:
		return traced(m.Data)
	case <-timer.C:
		return Unknown
	}
}

// expect returns a subject below the inbox, and the channel that receives the first
// message there. done removes it.
func (d *deliveries) expect() (subject string, result chan *nats.Msg, done func()) {
	subject, result = randomBelow(d.inbox), make(chan *nats.Msg, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes[subject] = result
	return subject, result, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.probes, subject)
	}
}

// traced reads a server's trace. Any event except the arrival of the message is a delivery
// that the server would have made.
func traced(data []byte) Outcome {
	var trace struct {
		Events []struct {
			Type  string `json:"type"`
			Error string `json:"error"`
		} `json:"events"`
	}
	if json.Unmarshal(data, &trace) != nil || len(trace.Events) == 0 {
		return Unknown
	}
	for _, event := range trace.Events {
		if event.Error != "" {
			return Unknown
		}
		if event.Type != "in" {
			return Heard
		}
	}
	return Unheard
}
