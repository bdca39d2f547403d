package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
)

// holder sends each request on a connection of its own and keeps the connections
// open, unread, until leave is called.
type holder func(ctx context.Context, to endpoint, requests [][]byte) (leave func(), err error)

func holdInProcess(ctx context.Context, to endpoint, requests [][]byte) (leave func(), err error) {
	conns := make([]net.Conn, len(requests))
	leave = func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}
	err = forEach(len(requests), func(i int) (err error) {
		if conns[i], err = to.dial(ctx); err != nil {
			return err
		}
		_, err = conns[i].Write(requests[i])
		return err
	})
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// heldRequests is the input, in JSON, of the process that holds connections.
type heldRequests struct {
	Server   string   `json:"server"` // http://…
	Requests [][]byte `json:"requests"`
}

// HoldConnections is the main function of the process that Config.Holder starts. It
// reads requests from in, sends each on a new connection, writes a line to out when all
// are sent, and keeps the connections open until in ends. So the memory and the file
// descriptors of the clients' ends are not in the process of the gateway.
func HoldConnections(ctx context.Context, in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var work heldRequests
	if err := decoder.Decode(&work); err != nil {
		return fmt.Errorf("bench: requests to hold: %w", err)
	}
	to, err := parseEndpoint(work.Server, "", nil)
	if err != nil {
		return err
	}
	leave, err := holdInProcess(ctx, to, work.Requests)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := fmt.Fprintln(out, "held"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// holdElsewhere keeps the connections in a process that command describes.
func holdElsewhere(command []string) holder {
	return func(ctx context.Context, to endpoint, requests [][]byte) (leave func(), err error) {
		child := exec.CommandContext(ctx, command[0], command[1:]...)
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := child.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := child.Start(); err != nil {
			return nil, err
		}
		leave = sync.OnceFunc(func() {
			_ = in.Close()
			_ = child.Wait()
		})
		work := heldRequests{Server: to.url(), Requests: requests}
		if err := json.NewEncoder(in).Encode(work); err != nil {
			leave()
			return nil, err
		}
		if n, _ := io.ReadFull(out, make([]byte, len("held\n"))); n == 0 {
			leave()
			return nil, errors.New("bench: the connections could not be opened in another process")
		}
		return leave, nil
	}
}
