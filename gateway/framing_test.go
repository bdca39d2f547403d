package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// What follows a request whose end a proxy may see elsewhere is never answered.
func TestNothingIsSmuggledBehindARequest(t *testing.T) {
	const (
		hidden  = "GET /t/hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
		chunked = "Transfer-Encoding: chunked\r\n"
		none    = "0\r\n\r\n" // a body without chunks
	)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(none+hidden))
	_, addr := serveLimited(t, func(*Config) {})
	for _, c := range []struct {
		name, start, header, body string
		code                      int
	}{
		{"length, then encoding", "POST /t/1 HTTP/1.1", length + chunked, none, 200},
		{"encoding, then length", "POST /t/1 HTTP/1.1", chunked + length, none, 200},
		{"a length that ends within the chunks", "POST /t/1 HTTP/1.1", "Content-Length: 3\r\n" + chunked, "1\r\n{\r\n0\r\n\r\n", 200},
		{"encoding alone", "POST /t/1 HTTP/1.1", chunked, none, 200},
		{"encoding in capitals", "POST /t/1 HTTP/1.1", length + "TRANSFER-ENCODING:\tChunked \r\n", none, 200},
		{"a body that the handler does not expect", "GET /t/1 HTTP/1.1", length + chunked, none, 200},
		{"an unknown path", "POST /nothing HTTP/1.1", length + chunked, none, 404},
		{"a client that asks for the connection", "POST /t/1 HTTP/1.1", length + chunked + "Connection: keep-alive\r\n", none, 200},
		{"chunked and identity", "POST /t/1 HTTP/1.1", length + "Transfer-Encoding: chunked, identity\r\n", none, 501},
		{"identity", "POST /t/1 HTTP/1.1", length + "Transfer-Encoding: identity\r\n", none, 501},
		{"folded", "POST /t/1 HTTP/1.1", length + "Transfer-Encoding: chunked\r\n identity\r\n", none, 501},
		{"two encodings", "POST /t/1 HTTP/1.1", length + chunked + chunked, none, 501},
		{"a vertical tab", "POST /t/1 HTTP/1.1", length + "Transfer-Encoding: \vchunked\r\n", none, 400},
		{"a space after the name", "POST /t/1 HTTP/1.1", length + "Transfer-Encoding : chunked\r\n", none, 400},
		{"two lengths", "POST /t/1 HTTP/1.1", length + "Content-Length: 0\r\n", none, 400},
		{"a list of lengths", "POST /t/1 HTTP/1.1", "Content-Length: 5, 5\r\n", none, 400},
		{"a length with a sign", "POST /t/1 HTTP/1.1", "Content-Length: +5\r\n", none, 400},
		{"encoding of HTTP/1.0", "POST /t/1 HTTP/1.0", chunked + "Connection: keep-alive\r\n", none, 200},
		{"encoding of HTTP/1.0, with a length", "POST /t/1 HTTP/1.0", "Content-Length: 5\r\n" + chunked + "Connection: keep-alive\r\n", none, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, addr)
			kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, c.start+"\r\nHost: localhost\r\n"+c.header+"\r\n"+c.body+hidden)))
			answers := bufio.NewReader(conn)
			answer, err := http.ReadResponse(answers, nil)
			kvslotstest.Must(t, err)
			kvslotstest.Must(t, kvslotstest.Err(io.Copy(io.Discard, answer.Body)))
			if answer.StatusCode != c.code || !answer.Close {
				t.Errorf("%d, closes the connection: %t; want %d, true", answer.StatusCode, answer.Close, c.code)
			}
			// An error is a reset, since the server has not read what was hidden.
			if more, err := io.ReadAll(answers); len(more) > 0 {
				t.Errorf("a further answer: %q, %v", more, err)
			}
		})
	}
}

// Two requests with bodies of known length share a connection.
func TestBodiesWithALengthKeepTheConnection(t *testing.T) {
	_, addr := serveLimited(t, func(*Config) {})
	conn := dial(t, addr)
	answers := bufio.NewReader(conn)
	for range 2 {
		io.WriteString(conn, "POST /t/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		answer, err := http.ReadResponse(answers, nil)
		kvslotstest.Must(t, err)
		if io.Copy(io.Discard, answer.Body); answer.StatusCode != http.StatusOK || answer.Close {
			t.Errorf("%d, closes the connection: %t", answer.StatusCode, answer.Close)
		}
	}
}
