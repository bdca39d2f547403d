package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// maxAnswer is the maximal length of an answer in bytes: that of 1,000 pools with long names.
const maxAnswer = 4 << 20

// exchange sends a request over HTTP, and reads its answer, up to maxAnswer. The errors begin with the scheme
// and host of the URL, without its path, which may contain a secret. They are ErrTLS, ErrNoTLS, that of a
// server's certificate that is not trusted, an *Unanswered, and the cause of the request's context.
func exchange(with *http.Client, r *http.Request) (*http.Response, []byte, error) {
	name := r.URL.Scheme + "://" + r.URL.Host
	response, err := with.Do(r)
	if err != nil {
		return nil, nil, notAnswered(r.Context(), name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, nil, notAnswered(r.Context(), name, err)
	case response.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")): // of net/http, and of nginx
		return nil, nil, fmt.Errorf("%s: %w", name, ErrTLS)
	}
	return response, body, nil
}

// notAnswered returns the error of a request without an answer. It is an *Unanswered, unless
// the TLS handshake failed in a way in which a repeated one would fail, too.
func notAnswered(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = withoutURL(err)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		err = dial.Err // without the address, which the name of the server has
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case noTLS || errors.Is(err, http.ErrSchemeMismatch):
		err = ErrNoTLS
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the server closed the connection without an answer: %w", err)
	}
	named := fmt.Errorf("%s: %w", name, err)
	if certificate || errors.Is(err, ErrNoTLS) {
		return named
	}
	return &Unanswered{named}
}

// withoutURL removes the URL from an error, because it may contain a session's or a pool's id.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
