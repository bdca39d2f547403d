// Package openapitest holds what a gateway answers against its own OpenAPI
// document, gateway/openapi.json. It is for tests alone: a client made with
//
//	&http.Client{Transport: openapitest.Transport(t, &http.Transport{})}
//
// fails its test at each answer that the document does not know: its status,
// its headers, its media type, its body, or a field in that. Where the document
// is silent about further fields there are none, which it does not tell clients:
// they should be ready for more.
//
// Requests may be as wrong as a test wants them to be; but one that was
// successful has to be as the document says.
package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// Transport checks all that passes through base. An answer is handed on only
// when its body has arrived; one that breaks off is not checked. It may be used
// from any goroutine, until the test ends.
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
	sent, asked, err := replay(r)
	if err != nil {
		return nil, err
	}
	answer, err := c.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), broken{err}))
	if err == nil {
		report(c.t, r, body, answer.StatusCode, c.contract.check(exchange{r, asked, answer.StatusCode, answer.Header, body}))
	}
	return answer, nil
}

// CloseIdleConnections is what http.Client asks for.
func (c *transport) CloseIdleConnections() {
	if base, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// replay gives the request with its body still to be read, and the body.
func replay(r *http.Request) (sent *http.Request, body []byte, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil, nil
	}
	body, err = io.ReadAll(r.Body)
	r.Body.Close()
	sent = r.Clone(r.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	return sent, body, err
}

// broken ends a body as it ended.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) {
	if b.err == nil {
		return 0, io.EOF
	}
	return 0, b.err
}

// Check is for tests without a client: it checks what a handler has answered to
// a request that had this body. A body that answers HEAD does not count: a
// server drops it.
func Check(t testing.TB, r *http.Request, asked string, answer *http.Response) {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
		return
	}
	if r.Method == http.MethodHead {
		body = nil
	}
	report(t, r, body, answer.StatusCode, load(t).check(exchange{r, []byte(asked), answer.StatusCode, answer.Header, body}))
}

func report(t testing.TB, r *http.Request, body []byte, status int, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("openapi.json: %s %s: %d %s\n%v", r.Method, r.URL.EscapedPath(), status, body, err)
	}
}

// Operations names all that the document describes, as "GET /l/{id}", sorted.
func Operations(t testing.TB) []string {
	t.Helper()
	return load(t).operations()
}
