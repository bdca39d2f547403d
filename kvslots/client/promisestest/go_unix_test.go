//go:build unix

package promisestest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/promisestest"
)

func init() { measure = measurePairs }

func TestGoCost(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asDriver+"=1")
	promisestest.Cost(t, command)
}

// measurePairs takes the processor time of pairs of borrow and return.
func measurePairs(c call) (o outcome) {
	pair, err := rawPair, error(nil)
	if c.Do == "pairs" {
		at, err := client.Dial(context.Background(), c.URL, client.Config{})
		if err != nil {
			return outcome{Outcome: err.Error()}
		}
		defer at.Close()
		pair = func(c call) error {
			lease, err := at.Borrow(context.Background(), c.Pool, kvslots.WithWait(0))
			if err == nil {
				_, err = lease.Return(context.Background())
			}
			return err
		}
	}
	began := processorTime()
	for n := 0; n < c.Pairs && err == nil; n++ {
		err = pair(c)
	}
	return outcome{Outcome: named(err), CPU: processorTime() - began}
}

func rawPair(c call) error {
	var borrowed, returned map[string]any
	if err := post(c, "borrow", map[string]any{"ttl": 60, "wait": 0}, &borrowed); err != nil {
		return err
	}
	return post(c, "return", map[string]any{"lease": borrowed["lease"]}, &returned)
}

func post(c call, operation string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	response, err := http.Post(fmt.Sprintf("%s/l/%s/%s", c.URL, c.Pool, operation), "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(answer)
}

func processorTime() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
