package natsapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// probeTimeout bounds the wait for the server's word on a reply subject. A requester
// of whom nothing is heard by then counts as there.
const probeTimeout = time.Second

// The headers of messages that a server traces, and does not deliver (NATS, "Message
// Tracing", since 2.11).
const (
	traceDestination = "Nats-Trace-Dest"
	traceOnly        = "Nats-Trace-Only"
)

// listens returns unheard when nothing is subscribed to a reply subject by now. It
// sends no answer there: what it sends is traced by the server, and delivered to
// nothing. Older servers would deliver it, so they are not asked.
func (d *deliveries) listens(reply string) outcome {
	if !traces(d.nc.ConnectedServerVersion()) || !d.nc.HeadersSupported() {
		return unknown
	}
	subject, told, done := d.expect()
	defer done()
	probe := nats.NewMsg(reply)
	probe.Header.Set(traceDestination, subject)
	probe.Header.Set(traceOnly, "true")
	if d.nc.PublishMsg(probe) != nil {
		return unknown
	}
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	select {
	case m := <-told:
		return traced(m.Data)
	case <-timer.C:
		return unknown
	}
}

// expect makes a subject of ours, and the channel to which the first message there
// goes. done forgets it.
func (d *deliveries) expect() (subject string, told chan *nats.Msg, done func()) {
	subject, told = randomBelow(d.inbox), make(chan *nats.Msg, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes[subject] = told
	return subject, told, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.probes, subject)
	}
}

// traced reads a server's trace. Anything but the message's arrival is a way that
// it would have gone on.
func traced(data []byte) outcome {
	var trace struct {
		Events []struct {
			Type  string `json:"type"`
			Error string `json:"error"`
		} `json:"events"`
	}
	if json.Unmarshal(data, &trace) != nil || len(trace.Events) == 0 {
		return unknown
	}
	for _, event := range trace.Events {
		if event.Error != "" {
			return unknown
		}
		if event.Type != "in" {
			return heard
		}
	}
	return unheard
}

// traces reports whether a server of that version traces messages: 2.11 or later.
func traces(version string) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(second)
	return err == nil && (major > 2 || major == 2 && minor >= 11)
}
