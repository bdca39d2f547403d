package dflockdtcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// BenchmarkPairs measures a lock taken and released over /v1 with a session made before, over
// a connection that stays, and over a connection for each pair, in turns. It reports the
// medians, and their ratios to that of /v1.
func BenchmarkPairs(b *testing.B) {
	b.Run("flushed", func(b *testing.B) { benchmarkPairs(b, natsembed.SyncGroup) })
	b.Run("not_flushed", func(b *testing.B) { benchmarkPairs(b, natsembed.SyncInterval) })
}

func benchmarkPairs(b *testing.B, sync natsembed.Sync) {
	dir := b.TempDir()
	srv, err := natsembed.Start(b.Context(), natsembed.Config{DataDir: dir, Sync: sync, Logger: logtest.Logger()})
	kvslotstest.Must(b, err)
	b.Cleanup(func() {
		srv.Close()
		logtest.SearchDir(dir)
	})
	store, _ := gatewaytest.OpenStore(b, srv.Connect, kvslots.Config{Embedded: srv})
	f := openFixture(b, store)
	http1 := &http.Client{Transport: &http.Transport{}}
	defer http1.CloseIdleConnections()
	post := func(path, body, session string) map[string]any {
		r, err := http.NewRequest("POST", "http://"+f.Addr+path, bytes.NewReader([]byte(body)))
		kvslotstest.Must(b, err)
		r.Header.Set(wire.SessionHeader, session)
		resp, err := http1.Do(r)
		kvslotstest.Must(b, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			b.Fatal(resp.Status, string(answer), err)
		}
		fields := map[string]any{}
		_ = json.Unmarshal(answer, &fields)
		return fields
	}
	session, _ := post("/v1/sessions", "", "")["session_id"].(string)
	overHTTP := func() {
		token := post("/v1/locks/a", `{"acquire_timeout_s":10}`, session)["token"]
		post("/v1/locks/a/release", fmt.Sprintf(`{"token":%q}`, token), session)
	}
	kept := f.dial(b)
	pair := func(c *client) { c.want(b, "r", "b", c.take(b, "l", "b", "10"), "ok") }
	overTCP := func() { pair(kept) }
	var last *client
	dialing := func() {
		last = f.dial(b)
		pair(last)
	}
	timed := func(do func()) float64 {
		began := time.Now()
		do()
		return time.Since(began).Seconds()
	}
	overHTTP()
	overTCP()
	var first, second, base []float64
	for b.Loop() {
		h := timed(overHTTP)
		base = append(base, h)
		first = append(first, timed(overTCP))
		second = append(second, timed(dialing))
		_ = last.Conn.(*net.TCPConn).CloseWrite()
		last.reply(b) // the session has ended
		last.Close()
	}
	b.ReportMetric(median(base)*1e6, "v1-µs")
	b.ReportMetric(median(first)*1e6, "tcp-µs")
	b.ReportMetric(median(second)*1e6, "dial-µs")
	b.ReportMetric(median(first)/median(base), "tcp/v1")
	b.ReportMetric(median(second)/median(base), "dial/v1")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
