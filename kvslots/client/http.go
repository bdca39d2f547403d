package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type httpTransport struct {
	base   string // the URL, without a slash at the end; may contain a password or a pool's id
	token  string // a secret; "" if there is none
	client http.Client
	stores *transport.Stores // of all addresses
}

func newHTTPTransport(at string, cfg Config, stores *transport.Stores) *httpTransport {
	h := &httpTransport{base: strings.TrimRight(at, "/"), token: cfg.Token, stores: stores}
	if cfg.HTTP != nil {
		h.client = *cfg.HTTP
	} else {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = own.MaxIdleConns // there is one host
		own.TLSClientConfig = cfg.TLS
		own.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext
		h.client.Transport = own
	}
	// A redirect would show the pool's id and the token to another server.
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return h
}

// Cancel does nothing: closing the connection has canceled a request without a key.
func (h *httpTransport) Cancel([]string) bool { return false }

func (h *httpTransport) Close() { h.client.CloseIdleConnections() }

func (h *httpTransport) Ask(ctx context.Context, r request, read func(answer) error) error {
	response, body, err := h.exchange(ctx, r)
	if err != nil {
		return err
	}
	err = readAnswer(response, body, read)
	if two := h.see(response); two != nil {
		if err == nil && r.Undo != nil {
			h.giveUp(ctx, r.Undo())
		}
		return two
	}
	return err
}

func (h *httpTransport) see(response *http.Response) error {
	return h.stores.See(h.base, response.Header.Get(wire.StoreHeader))
}

// giveUp returns what the gateway of another store has granted. It tries so once: otherwise the lease ends after its ttl.
func (h *httpTransport) giveUp(ctx context.Context, undo request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_, _, _ = h.exchange(ctx, undo)
}

func (h *httpTransport) exchange(ctx context.Context, r request) (*http.Response, []byte, error) {
	message, err := h.newRequest(ctx, r)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	return exchange(&h.client, message)
}

func readAnswer(response *http.Response, body []byte, read func(answer) error) error {
	switch {
	case response.StatusCode == http.StatusOK && !bytes.Equal(body, empty):
	case response.StatusCode == http.StatusOK:
		return ErrNotUnderstood // gateways send no object without fields
	case response.StatusCode == http.StatusNoContent:
		body = empty // as over NATS
	default:
		return unsupportedIfUnknownPath(wire.NewRefusal(response.StatusCode, response.Header, body))
	}
	return read(answer{Body: body, Header: response.Header})
}

func (h *httpTransport) newRequest(ctx context.Context, r request) (*http.Request, error) {
	message, err := http.NewRequestWithContext(ctx, r.Method, h.base+r.Target(&r.Params), bytes.NewReader(r.Route.Body(&r.Params)))
	if err != nil {
		return nil, err
	}
	message.Header.Set("Content-Type", "application/json")
	r.SetHeaders(&r.Params, message.Header.Set)
	if r.RequestKey != "" {
		message.Header.Set(wire.RequestKeyHeader, r.RequestKey)
	}
	if h.token != "" {
		message.Header.Set(wire.AuthorizationHeader, "Bearer "+h.token)
	}
	return message, nil
}

// unsupportedIfUnknownPath adds errors.ErrUnsupported to the refusal of a server that
// does not know the path.
func unsupportedIfUnknownPath(refused *wire.Refusal) error {
	switch refused.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if refused.Err == nil {
			refused.Err = errors.ErrUnsupported
		}
	}
	return refused
}
