package promisestest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// slowHost is the gateway's name in cases with a slow resolver; its address is 127.0.0.1.
const slowHost = "gateway.test"

// ResolveSlowly is for drivers in Go: it makes this program ask a name server that takes a time for each answer,
// which is 127.0.0.1.
func ResolveSlowly(takes time.Duration) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for answerQuery(server, takes) == nil {
			}
		}()
		return client, nil
	}}
}

func answerQuery(conn net.Conn, takes time.Duration) error {
	const header, typeA = 12, 1
	query := make([]byte, 2)
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	query = make([]byte, binary.BigEndian.Uint16(query))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	time.Sleep(takes)
	end := header
	for query[end] != 0 { // the labels of the name
		end += int(query[end]) + 1
	}
	end += 5 // with the type and the class
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[header:end]...)
	if query[end-3] == typeA {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
	}
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}
