package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// answerTimeout is how long a gateway may take beyond the wait that it was
	// asked for. It carries out what it has begun for up to 30 s.
	answerTimeout = 35 * time.Second

	// maxAnswer is the longest answer that is read, in bytes.
	maxAnswer = 64 << 10

	// maxText is the longest text of an answer that is shown, in characters.
	maxText = 200
)

// httpLender speaks REST /l.
type httpLender struct {
	server string // without a slash at the end
	token  string // a secret; "" if there is none
	client *http.Client
}

func newHTTPLender(server, token string) *httpLender {
	return &httpLender{
		server: strings.TrimRight(server, "/"),
		token:  token,
		client: &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// To follow would tell the pool's id and the token to somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (h *httpLender) close() { h.client.CloseIdleConnections() }

func (h *httpLender) register(ctx context.Context, pool uuid.UUID, count int) (answer poolAnswer, err error) {
	return answer, h.ask(ctx, http.MethodPut, pool, "", 0, wire.PoolRequest{Count: &count}.Encode(), &answer)
}

func (h *httpLender) inspect(ctx context.Context, pool uuid.UUID) (answer poolAnswer, err error) {
	return answer, h.ask(ctx, http.MethodGet, pool, "", 0, nil, &answer)
}

func (h *httpLender) remove(ctx context.Context, pool uuid.UUID) error {
	return h.ask(ctx, http.MethodDelete, pool, "", 0, nil, &deletedAnswer{})
}

func (h *httpLender) borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration) (answer leaseAnswer, err error) {
	body := wire.PoolRequest{TTL: int64(ttl / time.Second), Wait: int64(wait / time.Second)}.Encode()
	return answer, h.ask(ctx, http.MethodPost, pool, "/borrow", wait, body, &answer)
}

func (h *httpLender) giveBack(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	var answer returnedAnswer
	err := h.ask(ctx, http.MethodPost, pool, "/return", 0, wire.PoolRequest{Lease: &lease}.Encode(), &answer)
	return answer.Returned, err
}

func (h *httpLender) renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (answer leaseAnswer, err error) {
	body := wire.PoolRequest{Lease: &lease, TTL: int64(ttl / time.Second)}.Encode()
	return answer, unlessUnknown(h.ask(ctx, http.MethodPost, pool, "/renew", 0, body, &answer))
}

// unlessUnknown turns the refusal of a gateway that does not know the path into
// errors.ErrUnsupported.
func unlessUnknown(err error) error {
	refused, ok := errors.AsType[*wire.Refusal](err)
	if !ok {
		return err
	}
	switch refused.Status {
	case http.StatusNotFound:
		if refused.Err != nil { // an answer of the path's
			return err
		}
		fallthrough
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		refused.Err = errors.ErrUnsupported
	}
	return err
}

// ask sends one request and reads the answer, a refusal included.
func (h *httpLender) ask(ctx context.Context, method string, pool uuid.UUID, path string, wait time.Duration, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, h.server+"/l/"+pool.String()+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("--server is no URL that a request can be sent to")
	}
	r.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		r.Header.Set(wire.AuthorizationHeader, "Bearer "+h.token)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return failureOf(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return failureOf(err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusalOfHTTP(resp, text)
	}
	lease, lent := answer.(*leaseAnswer)
	if json.Unmarshal(text, answer) != nil || lent && (lease.Lease == uuid.Nil || lease.ExpiresIn < 1) {
		return errors.New("the answer is not kvslots': is --server a kvslots gateway?")
	}
	return nil
}

// failureOf is an error of net/http as it is told. A server that cannot be
// trusted stays so; everything else may work later.
func failureOf(err error) error {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	if err = withoutURL(err); certificate || noTLS {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the server closed the connection without an answer; is --server right?")
	}
	return unanswered{err}
}

// refusalOfHTTP is what the gateway says, or the status if it was somebody else who
// answered.
func refusalOfHTTP(resp *http.Response, body []byte) *wire.Refusal {
	r := wire.NewRefusal(resp.StatusCode, resp.Header.Get(wire.ErrorHeader), body)
	r.RetryAfter = parseRetryAfter(resp.Header.Get(wire.RetryAfterHeader), time.Now())
	if r.Text = printable(r.Text); r.Text == "" && r.Status < http.StatusBadRequest {
		r.Text = r.Error() + ", a redirect; is --server right?"
	}
	return r
}

// parseRetryAfter reads a number of seconds, or a date (RFC 9110, 10.2.3).
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

// withoutURL drops the URL from an error of net/http: it has the pool's id in
// it.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the server did not answer in time")
	}
	return err
}

// printable keeps a server from writing to the terminal what it likes.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}
