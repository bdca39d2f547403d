package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
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
	return answer, h.ask(ctx, http.MethodPut, pool, "", 0, map[string]any{"count": count}, &answer)
}

func (h *httpLender) inspect(ctx context.Context, pool uuid.UUID) (answer poolAnswer, err error) {
	return answer, h.ask(ctx, http.MethodGet, pool, "", 0, nil, &answer)
}

func (h *httpLender) remove(ctx context.Context, pool uuid.UUID) error {
	return h.ask(ctx, http.MethodDelete, pool, "", 0, nil, &deletedAnswer{})
}

func (h *httpLender) borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration) (answer leaseAnswer, err error) {
	body := map[string]any{"ttl": int64(ttl / time.Second), "wait": int64(wait / time.Second)}
	return answer, h.ask(ctx, http.MethodPost, pool, "/borrow", wait, body, &answer)
}

func (h *httpLender) giveBack(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	var answer returnedAnswer
	err := h.ask(ctx, http.MethodPost, pool, "/return", 0, map[string]any{"lease": lease}, &answer)
	return answer.Returned, err
}

// ask sends one request and reads the answer, a refusal included.
func (h *httpLender) ask(ctx context.Context, method string, pool uuid.UUID, path string, wait time.Duration, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // numbers and strings: cannot fail
	}
	r, err := http.NewRequestWithContext(ctx, method, h.server+"/l/"+pool.String()+path, bytes.NewReader(text))
	if err != nil {
		return errors.New("--server is no URL that a request can be sent to")
	}
	r.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return withoutURL(err)
	}
	if resp.StatusCode != http.StatusOK {
		return &refusal{resp.StatusCode, refusalText(resp.StatusCode, text), refusalMeaning(resp.StatusCode)}
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return errors.New("the answer is not kvslots': is --server a kvslots gateway?")
	}
	return nil
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

// refusalText is what the gateway says, or the status if it was somebody else
// who answered.
func refusalText(status int, body []byte) string {
	var failure failureAnswer
	if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
		return fmt.Sprintf("HTTP status %d", status)
	}
	return printable(failure.Error)
}

// refusalMeaning is what a status of /l stands for.
func refusalMeaning(status int) error {
	switch status {
	case http.StatusConflict:
		return kvslots.ErrNoSlot
	case http.StatusNotFound:
		return kvslots.ErrNoPool
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return kvslots.ErrUnavailable
	}
	return nil
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
