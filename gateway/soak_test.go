package gateway_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

const soakPool = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// openSoak serves pools with limits, for the long tests.
func openSoak(t *testing.T, change func(cfg *gateway.Config)) *gatewaytest.Gateway {
	t.Helper()
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{MaxWait: 10 * time.Minute})
	return gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{library.New(store, cfg.Lending, cfg.Logger)}
		change(cfg)
	})
}

// Each of 1,000 clients that send a header byte by byte is cut off in time, and a request
// with a long wait beside them is not.
func TestSlowHeadersSoak(t *testing.T) {
	const slow = 1000
	d := openSoak(t, func(cfg *gateway.Config) { cfg.MaxConnections = slow + 50 })
	d.Do(t, "PUT", soakPool, `{"count":1}`)
	d.Do(t, "POST", soakPool+"/borrow", `{"ttl":120}`)
	waited := make(chan string, 1)
	go func() {
		code, body, _ := d.Do(t, "POST", soakPool+"/borrow", `{"ttl":60,"wait":30}`)
		waited <- fmt.Sprint(code, body)
	}()
	began := time.Now()
	var all sync.WaitGroup
	var cut, longest atomic.Int64
	for range slow {
		conn := d.Dial(t)
		all.Go(func() {
			go func() {
				beat := time.NewTicker(500 * time.Millisecond)
				defer beat.Stop()
				for i := 0; ; i++ { // ends when the connection is closed
					if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "[i%2:i%2+1]); err != nil {
						return
					}
					<-beat.C
				}
			}()
			opened := time.Now()
			_ = conn.SetReadDeadline(opened.Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); err == nil || !strings.Contains(err.Error(), "timeout") {
				cut.Add(1)
			}
			if took := int64(time.Since(opened)); took > longest.Load() {
				longest.Store(took)
			}
		})
	}
	opened := time.Since(began)
	var quick []time.Duration
	for range 200 {
		asked := time.Now()
		if code, body, _ := d.Do(t, "GET", soakPool, ""); code != 200 {
			t.Errorf("beside the slow ones: %d %s", code, body)
		}
		quick = append(quick, time.Since(asked))
	}
	all.Wait()
	t.Logf("%d connections opened in %s; cut off: %d, the last one after %s; an inspection beside them: p99 %s",
		slow, opened, cut.Load(), time.Duration(longest.Load()), percentile(quick, 99))
	if cut.Load() != slow {
		t.Errorf("%d of %d were cut off", cut.Load(), slow)
	}
	if got := <-waited; !strings.HasPrefix(got, "409") {
		t.Errorf("the request that waited is answered %s", got)
	}
}

func percentile(of []time.Duration, p int) time.Duration {
	slices.Sort(of)
	return of[(len(of)-1)*p/100]
}
