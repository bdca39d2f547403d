package promisestest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is what the proxy does to the first requests of a kind.
type fault struct {
	to    string // the end of their paths; "" for all
	times int    // how many; 0 for all
	do    func(x *exchange)
}

type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	gateway string
}

func (x *exchange) forward() (status int, header http.Header, body []byte) {
	asked, err := http.NewRequestWithContext(x.r.Context(), x.r.Method, x.gateway+x.r.URL.RequestURI(), x.r.Body)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	asked.Header = x.r.Header.Clone()
	response, err := http.DefaultTransport.RoundTrip(asked)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	defer response.Body.Close()
	body, _ = io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body
}

// answer sends an answer. With a pause it sends it in about ten pieces, with pauses between them.
func (x *exchange) answer(status int, header http.Header, body []byte, pause time.Duration) {
	for name, values := range header {
		x.w.Header()[name] = values
	}
	x.w.WriteHeader(status)
	size := len(body) + 1
	if pause > 0 {
		size = len(body)/10 + 1
	}
	for piece := range slices.Chunk(body, size) {
		time.Sleep(pause)
		_, _ = x.w.Write(piece)
		_ = http.NewResponseController(x.w).Flush()
	}
}

// end ends the connection without an answer.
func (x *exchange) end(reset bool) {
	conn, _, err := x.w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func hangs(x *exchange) { <-x.r.Context().Done() }

func losesRequest(x *exchange) { x.end(false) }

func resets(x *exchange) { x.end(true) }

func losesAnswer(x *exchange) {
	x.forward()
	x.end(false)
}

// losesSome returns a fault that loses 3 of 10 answers, in a random order.
func losesSome() func(*exchange) {
	var mu sync.Mutex
	var next []int
	return func(x *exchange) {
		mu.Lock()
		if len(next) == 0 {
			next = rand.Perm(10)
		}
		lost := next[0] < 3
		next = next[1:]
		mu.Unlock()
		if lost {
			losesAnswer(x)
		} else {
			passes(x)
		}
	}
}

func passes(x *exchange) {
	status, header, body := x.forward()
	x.answer(status, header, body, 0)
}

func delays(x *exchange) {
	time.Sleep(500 * time.Millisecond)
	passes(x)
}

func trickles(x *exchange) {
	status, header, body := x.forward()
	x.answer(status, header, body, 20*time.Millisecond)
}

func refuses(status int, retryAfter string) func(*exchange) {
	return func(x *exchange) {
		if retryAfter != "" {
			x.w.Header().Set("Retry-After", retryAfter)
		}
		x.w.WriteHeader(status)
	}
}

// away refuses as a gateway that stops, which names its store.
func away(x *exchange) {
	response, err := http.Get(x.gateway + "/health")
	if err == nil {
		_ = response.Body.Close()
		x.w.Header()["Kvslots-Store"] = response.Header["Kvslots-Store"]
	}
	x.w.WriteHeader(http.StatusServiceUnavailable)
}

func says(contentType, body string) func(*exchange) {
	return func(x *exchange) {
		x.w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(x.w, body)
	}
}

func startProxy(t *testing.T, gateway string, faults []fault) string {
	var mu sync.Mutex
	met := make([]int, len(faults))
	find := func(r *http.Request) func(*exchange) {
		mu.Lock()
		defer mu.Unlock()
		for i, f := range faults {
			method, end, found := strings.Cut(f.to, " ")
			if !found {
				method, end = r.Method, f.to
			}
			if r.Method == method && strings.HasSuffix(r.URL.Path, end) && (f.times == 0 || met[i] < f.times) {
				met[i]++
				return f.do
			}
		}
		return passes
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // so that the end of the connection is noticed
		r.Body = io.NopCloser(bytes.NewReader(body))
		find(r)(&exchange{w, r, gateway})
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}
