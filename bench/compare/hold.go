package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/kvslots/kvslots/bench"
)

// heldRequests is the input, in JSON, of the process that holds connections.
type heldRequests struct {
	Server   string   `json:"server"` // http://…
	Requests [][]byte `json:"requests"`
}

// holdConnections is the main function of the process that holdElsewhere starts. It
// reads requests from in, sends each on a new connection, writes a line to out when all
// are sent, and keeps the connections open until in ends. So the memory and the file
// descriptors of the clients' ends are not in the process of the gateway.
func holdConnections(ctx context.Context, in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var work heldRequests
	if err := decoder.Decode(&work); err != nil {
		return fmt.Errorf("requests to hold: %w", err)
	}
	to, err := bench.ParseEndpoint(work.Server, "", nil)
	if err != nil {
		return err
	}
	leave, err := bench.Hold(ctx, to, work.Requests)
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

func holdElsewhere(command []string) bench.Holder {
	return func(ctx context.Context, to bench.Endpoint, requests [][]byte) (leave func(), err error) {
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
		work := heldRequests{Server: to.URL(), Requests: requests}
		if err := json.NewEncoder(in).Encode(work); err != nil {
			leave()
			return nil, err
		}
		if n, _ := io.ReadFull(out, make([]byte, len("held\n"))); n == 0 {
			leave()
			return nil, errors.New("the connections could not be opened in another process")
		}
		return leave, nil
	}
}
