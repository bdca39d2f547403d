package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 64 << 10

// overHTTP asks the gateway at a URL.
type overHTTP struct {
	base   string // the URL, without a slash at the end
	token  string // a secret; "" if there is none
	client http.Client
}

func newOverHTTP(at string, cfg Config) *overHTTP {
	h := &overHTTP{base: strings.TrimRight(at, "/"), token: cfg.Token}
	if cfg.HTTP != nil {
		h.client = *cfg.HTTP
	} else {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = own.MaxIdleConns // there is one host
		own.TLSClientConfig = cfg.TLS
		h.client.Transport = own
	}
	// To follow would show the pool's id and the token to another server.
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return h
}

func (h *overHTTP) close() { h.client.CloseIdleConnections() }

func (h *overHTTP) ask(ctx context.Context, r request, read func(answer) error) error {
	ctx, cancel := bound(ctx, r.wait)
	defer cancel()
	message, err := h.message(ctx, r)
	if err != nil {
		return withoutURL(err)
	}
	response, err := h.client.Do(message)
	if err != nil {
		return failure(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return failure(ctx, err)
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		body = []byte("{}") // as over NATS
	default:
		return unlessUnknown(newRefusal(response.StatusCode, response.Header, body))
	}
	return read(answer{body, response.Header})
}

func (h *overHTTP) message(ctx context.Context, r request) (*http.Request, error) {
	name, session, body := r.split()
	if r.method == http.MethodGet || r.method == http.MethodDelete {
		body = nil
	}
	path := strings.Replace(r.path, "{}", url.PathEscape(name), 1)
	message, err := http.NewRequestWithContext(ctx, r.method, h.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	message.Header.Set("Content-Type", "application/json")
	if session != "" {
		message.Header.Set(wire.SessionHeader, session)
	}
	if h.token != "" {
		message.Header.Set(wire.AuthorizationHeader, "Bearer "+h.token)
	}
	return message, nil
}

// split returns what the path names, the session if it is not that, and the body,
// which has neither of them over HTTP.
func (r request) split() (name, session string, body []byte) {
	s := r.session
	switch {
	case r.pool.ID != nil:
		name, r.pool.ID = r.pool.ID.String(), nil
		return name, "", r.pool.Encode()
	case s.Key == "":
		return s.Session, "", wire.SessionRequest{}.Encode()
	}
	r.session.Session, r.session.Key = "", ""
	return s.Key, s.Session, r.session.Encode()
}

// unlessUnknown makes errors.ErrUnsupported of the refusal of a server that does not
// know the path, such as a gateway of an older version.
func unlessUnknown(refused *wire.Refusal) error {
	switch refused.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if refused.Err == nil {
			refused.Err = errors.ErrUnsupported
		}
	}
	return refused
}

// failure is the error of a request that got no answer. A server that cannot be
// trusted stays so; after every other error the request may be answered later.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = withoutURL(err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	if certificate || noTLS {
		return err
	}
	return &Unanswered{err}
}

// withoutURL drops the URL from an error: it has the pool's id in it.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
