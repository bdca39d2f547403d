package promisestest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/promisestest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const asDriver = "KVSLOTS_TEST_DRIVER"

func TestMain(m *testing.M) {
	if os.Getenv(asDriver) != "" {
		drive()
		return
	}
	os.Exit(logtest.NoSecrets(m).Run())
}

// What the client in Go promises.
func TestGo(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asDriver+"=1")
	promisestest.Check(t, command)
}

// call and outcome are those of the protocol.
type call struct {
	URL, Do, Name string
	Pool          uuid.UUID
	TTL, Wait     time.Duration
	Cancel        float64
	Lookup        float64
	Pairs         int
	Hold          bool
}

type outcome struct {
	Outcome  string  `json:"outcome"`
	Took     float64 `json:"took"`
	Back     string  `json:"back"`
	BackTook float64 `json:"back_took"`
	CPU      float64 `json:"cpu"`
}

// measure is set where the processor time is known.
var measure func(call) outcome

func drive() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		do := perform
		if c.Pairs > 0 {
			do = measure
		}
		_ = json.NewEncoder(os.Stdout).Encode(do(c))
	}
}

func perform(c call) (o outcome) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	promisestest.ResolveSlowly(time.Duration(c.Lookup * float64(time.Second)))
	if c.Cancel > 0 {
		time.AfterFunc(time.Duration(c.Cancel*float64(time.Second)), cancel)
	}
	at, err := client.Dial(ctx, c.URL, client.Config{})
	if err != nil {
		return outcome{Outcome: err.Error()}
	}
	defer at.Close()
	began := time.Now()
	giveBack, lost, err := take(ctx, at, c)
	o.Outcome, o.Took = named(err), time.Since(began).Seconds()
	if err != nil {
		return o
	}
	began = time.Now()
	if c.Hold {
		<-lost
		_ = giveBack()
		return outcome{Outcome: "lost", Took: time.Since(began).Seconds()}
	}
	o.Back = "yes"
	if err := giveBack(); err != nil {
		o.Back = err.Error()
	}
	o.BackTook = time.Since(began).Seconds()
	return o
}

func take(ctx context.Context, at *client.Client, c call) (giveBack func() error, lost <-chan struct{}, err error) {
	if c.Do == "borrow" {
		lease, err := at.Borrow(ctx, c.Pool, kvslots.WithTTL(c.TTL*time.Second), kvslots.WithWait(c.Wait*time.Second))
		if err != nil {
			return nil, nil, err
		}
		return func() error {
			if returned, err := lease.Return(ctx); err != nil || returned {
				return err
			}
			return kvslots.ErrNotHeld
		}, lease.Done(), nil
	}
	session, err := kvslots.NewSession(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	m := session.Mutex(c.Name, kvslots.WithTTL(c.TTL*time.Second), kvslots.WithWait(c.Wait*time.Second))
	if err := m.Lock(ctx); err != nil {
		return nil, nil, errors.Join(err, session.Close(ctx))
	}
	return func() error { return errors.Join(m.Unlock(ctx), session.Close(ctx)) }, m.Done(), nil
}

func named(err error) string {
	switch {
	case err == nil:
		return "granted"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, kvslots.ErrNoSlot):
		return "taken"
	case errors.Is(err, client.ErrNotUnderstood):
		return "foreign"
	case errors.Is(err, client.ErrTwoStores):
		return "two stores"
	case client.Temporary(err):
		return "unavailable"
	}
	return err.Error()
}
