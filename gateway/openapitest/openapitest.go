package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Transport returns a RoundTripper that checks the answers of base. It returns an
// answer when the whole body has arrived, and does not check one that breaks off. It is
// safe for concurrent use until the test ends.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	return &transport{t, load(t), base}
}

type transport struct {
	t        testing.TB
	contract *contract
	base     http.RoundTripper
}

func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.GetBody != nil {
		body, _ := r.GetBody() // of a text in memory
		asked, _ = io.ReadAll(body)
	}
	answer, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.Body = io.NopCloser(bytes.NewReader(body)); err != nil {
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(err)))
		return answer, nil
	}
	report(c.t, r, body, answer.StatusCode, c.contract.check(exchange{r, asked, answer.StatusCode, answer.Header, body}))
	return answer, nil
}

// CloseIdleConnections is called by http.Client.
func (c *transport) CloseIdleConnections() {
	if base, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Check checks the answer of a handler to a request with the given body. It ignores the
// body of an answer to HEAD, which a server would drop.
func Check(t testing.TB, r *http.Request, requestBody string, answer *http.Response) {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
		return
	}
	if r.Method == http.MethodHead {
		body = nil
	}
	report(t, r, body, answer.StatusCode, load(t).check(exchange{r, []byte(requestBody), answer.StatusCode, answer.Header, body}))
}

// report reports the result of a check. It also looks for secrets in a scrape of the metrics.
func report(t testing.TB, r *http.Request, body []byte, status int, err error) {
	t.Helper()
	if r.URL.Path == "/metrics" {
		logtest.Search("a scrape of the metrics", body)
	}
	if err != nil {
		t.Errorf("openapi.json: %s %s: %d %s\n%v", r.Method, r.URL.EscapedPath(), status, body, err)
	}
}

// Operations returns all documented operations in the form "GET /l/{id}", sorted.
func Operations(t testing.TB) []string {
	t.Helper()
	var names []string
	for path, item := range load(t).doc.Paths.Map() {
		for method := range item.Operations() {
			names = append(names, method+" "+path)
			if method == http.MethodGet {
				names = append(names, http.MethodHead+" "+path)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Requests returns a request for each documented operation, with parameters in its path that
// may exist.
func Requests(t testing.TB) []*http.Request {
	t.Helper()
	var requests []*http.Request
	for _, operation := range Operations(t) {
		method, path, _ := strings.Cut(operation, " ")
		if strings.HasPrefix(path, "/l/") {
			path = strings.ReplaceAll(path, "{id}", "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01")
		}
		path = strings.NewReplacer(
			"{id}", "0123456789abcdef0123456789abcdef", "{ref}", "0123456789abcdef0123456789abcdef", "{key}", "k", "{position}", "0",
		).Replace(path)
		requests = append(requests, httptest.NewRequest(method, path, nil))
	}
	return requests
}
