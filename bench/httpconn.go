package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kvslots/kvslots/kvslots/wire"
)

type Endpoint struct {
	addr  string // host:port
	host  string // for the header
	tls   *tls.Config
	token string // bearer token; "" sends none
}

// ParseEndpoint parses the URL of a gateway, http or https, without a path. config is used
// for https; nil means the default.
func ParseEndpoint(text, token string, config *tls.Config) (Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
		return Endpoint{}, errors.New("bench: the server must be http://host:port or https://host:port")
	}
	t := Endpoint{addr: u.Host, host: u.Host, token: token}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		if t.tls = config.Clone(); t.tls == nil {
			t.tls = &tls.Config{}
		}
		t.tls.ServerName = u.Hostname()
	}
	if u.Port() == "" {
		t.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return t, nil
}

// URL returns the URL from which ParseEndpoint makes the same Endpoint.
func (e Endpoint) URL() string {
	if e.tls != nil {
		return "https://" + e.host
	}
	return "http://" + e.host
}

func (e Endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.tls != nil {
		return (&tls.Dialer{Config: e.tls}).DialContext(ctx, "tcp", e.addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", e.addr)
}

func (e Endpoint) request(method, path, header string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, e.host)
	if e.token != "" {
		b.WriteString(wire.AuthorizationHeader + ": Bearer " + e.token + "\r\n")
	}
	b.WriteString(header)
	if body != nil {
		b.WriteString("Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// httpConn is one client's connection. It sends one request at a time. The benchmark
// does not use the client of net/http, which needs more processor time than the gateway.
type httpConn struct {
	to     Endpoint
	conn   net.Conn // nil while not connected
	reader *bufio.Reader
}

type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("bench: status %d: %s", e.status, e.body) }

// withStatus returns a *statusError for a refusal by a gateway, and else err.
func withStatus(err error) error {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return &statusError{refused.Status, refused.Error()}
	}
	return err
}

// do sends a request and returns the body of the answer, or a *statusError if its
// status is not 2xx. If ctx ends, do closes the connection, as a client that gives up
// would; the next call opens a new one.
func (c *httpConn) do(ctx context.Context, request []byte) ([]byte, error) {
	if c.conn == nil {
		conn, err := c.to.dial(ctx)
		if err != nil {
			return nil, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	body, status, keep, err := c.exchange(request)
	if !stop() || err != nil || !keep {
		c.close()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case status/100 != 2:
		return nil, &statusError{status, string(body)}
	}
	return body, nil
}

func (c *httpConn) exchange(request []byte) (body []byte, status int, keep bool, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, 0, false, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, 0, false, err
	}
	body, err = io.ReadAll(response.Body)
	return body, response.StatusCode, !response.Close, err
}

func (c *httpConn) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
