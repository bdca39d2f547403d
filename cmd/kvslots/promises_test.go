package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/client/promisestest"
)

// asDriver makes the test program run as the driver of the commands run and lock.
const asDriver = "KVSLOTS_TEST_DRIVER"

// slowLookup is the time that the test program as kvslots takes to look up a name, if it is set.
const slowLookup = "KVSLOTS_TEST_LOOKUP"

// What the commands promise.
func TestPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	process := newProcess(t)
	process.Env = append(process.Env, asDriver+"=1")
	promisestest.Check(t, process)
}

// driverCall and driverOutcome are those of package promisestest.
type driverCall struct {
	URL, Do, Name, Pool string
	TTL, Wait           int
	Cancel, Lookup      float64
	Hold                bool
}

type driverOutcome struct {
	Outcome  string  `json:"outcome"`
	Took     float64 `json:"took"`
	Back     string  `json:"back"`
	BackTook float64 `json:"back_took"`
}

func drive() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c driverCall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(perform(c))
	}
}

// perform runs "kvslots run" or "kvslots lock" with a command that prints a line.
func perform(c driverCall) (o driverOutcome) {
	args := []string{"run", c.Pool}
	if c.Do == "lock" {
		args = []string{"lock", c.Name}
	}
	args = append(args, "--server", c.URL, "--ttl", fmt.Sprintf("%ds", c.TTL), "--wait", fmt.Sprintf("%ds", c.Wait), "--", "sh", "-c", "echo granted; "+map[bool]string{true: "exec sleep 600"}[c.Hold])
	process, trouble := exec.Command(os.Args[0], args...), new(bytes.Buffer)
	process.Env, process.Stderr = append(os.Environ(), asProgram+"=1", asDriver+"=", fmt.Sprintf("%s=%gs", slowLookup, c.Lookup)), trouble
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return driverOutcome{Outcome: err.Error()}
	}
	began := time.Now()
	if c.Cancel > 0 {
		time.AfterFunc(time.Duration(c.Cancel*float64(time.Second)), func() { _ = process.Process.Signal(os.Interrupt) })
	}
	granted := bufio.NewScanner(out).Scan()
	o.Took = time.Since(began).Seconds()
	_ = process.Wait()
	code := process.ProcessState.ExitCode()
	if !granted {
		o.Outcome = map[int]string{exitNoSlot: "taken", exitNoGateway: "unavailable", exitSettings: "two stores", 128 + 2: "canceled"}[code]
		if strings.Contains(trouble.String(), "the answer is not that of a gateway") {
			o.Outcome = "foreign"
		}
		if o.Outcome == "" {
			o.Outcome = fmt.Sprintf("exit code %d: %s", code, trouble)
		}
		return o
	}
	if c.Hold && strings.Contains(trouble.String(), "lost") {
		return driverOutcome{Outcome: "lost", Took: time.Since(began).Seconds() - o.Took}
	}
	o.Outcome, o.Back, o.BackTook = "granted", "yes", time.Since(began).Seconds()-o.Took
	if code != exitDone || strings.Contains(trouble.String(), "was not returned") {
		o.Back = fmt.Sprintf("exit code %d: %s", code, trouble)
	}
	return o
}
