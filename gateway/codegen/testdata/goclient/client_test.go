// Package goclient calls the gateway at KVSLOTS_URL with a generated client.
package goclient

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/kvslots/kvslots/gateway/codegen/api"
)

const pool = "6c8d6a0e-5b2f-4a39-9c41-2f6f6a1d7b02"

func TestClient(t *testing.T) {
	c, err := api.NewClientWithResponses(os.Getenv("KVSLOTS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func(context.Context, *api.ClientWithResponses) error{"read": read, "lend": lend, "lock": lock, "call": call} {
		if err := use(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ok returns an error if a request has failed, or its answer was not as expected.
func ok(err error, answer *http.Response, as bool, got any) error {
	if err == nil && !as {
		err = fmt.Errorf("%s %s: %s, decoded as %+v", answer.Request.Method, answer.Request.URL.Path, answer.Status, got)
	}
	return err
}

func read(ctx context.Context, c *api.ClientWithResponses) error {
	accept := func(_ context.Context, r *http.Request) error { r.Header.Set("Accept", "application/json"); return nil }
	greeting, err := c.GetGreetingWithResponse(ctx, nil, accept)
	if err := ok(err, greeting.HTTPResponse, greeting.JSON200 != nil && len(greeting.JSON200.Apis) == 4, greeting.JSON200); err != nil {
		return err
	}
	ready, err := c.GetReadinessWithResponse(ctx, nil)
	return ok(err, ready.HTTPResponse, ready.JSON200 != nil && ready.JSON200.Sync == "always", ready.JSON200)
}

func lend(ctx context.Context, c *api.ClientWithResponses) error {
	id := pool
	state, err := c.RegisterPoolWithResponse(ctx, "self", &api.RegisterPoolParams{KvslotsPool: &id}, api.Registration{Count: 1})
	if err := ok(err, state.HTTPResponse, state.JSON200 != nil && state.JSON200.Available == 1, state.JSON200); err != nil {
		return err
	}
	lent, err := c.BorrowSlotWithResponse(ctx, pool, nil, api.Borrow{Ttl: 30})
	if err := ok(err, lent.HTTPResponse, lent.JSON200 != nil && lent.JSON200.Fence > 1<<32, lent.JSON200); err != nil {
		return err
	}
	none, err := c.BorrowSlotWithResponse(ctx, pool, nil, api.Borrow{Ttl: 30})
	if err := ok(err, none.HTTPResponse, none.JSON409 != nil && none.JSON409.Error != "", none.JSON409); err != nil {
		return err
	}
	returned, err := c.ReturnSlotWithResponse(ctx, pool, nil, api.Return{Lease: lent.JSON200.Lease})
	if err := ok(err, returned.HTTPResponse, returned.JSON200 != nil && returned.JSON200.Returned, returned.JSON200); err != nil {
		return err
	}
	deleted, err := c.DeletePoolWithResponse(ctx, "self", &api.DeletePoolParams{KvslotsPool: &id})
	return ok(err, deleted.HTTPResponse, deleted.JSON200 != nil && bool(deleted.JSON200.Deleted), deleted.JSON200)
}

// lock tells the alternatives of an answer apart by their discriminator.
func lock(ctx context.Context, c *api.ClientWithResponses) error {
	var sessions [2]string
	for i := range sessions {
		created, err := c.CreateSessionWithResponse(ctx, nil, api.CreateSessionJSONRequestBody{})
		if err := ok(err, created.HTTPResponse, created.JSON200 != nil, created.JSON200); err != nil {
			return err
		}
		sessions[i] = created.JSON200.SessionId
	}
	var token string
	for i, session := range sessions {
		taken, err := c.AcquireLockWithResponse(ctx, "a/b", &api.AcquireLockParams{XDflockdSession: session}, api.LockAcquire{})
		if err := ok(err, taken.HTTPResponse, taken.JSON200 != nil, taken.JSON200); err != nil {
			return err
		}
		outcome, err := taken.JSON200.ValueByDiscriminator()
		if err != nil {
			return err
		}
		switch outcome := outcome.(type) {
		case api.Granted:
			token = outcome.Token
		case api.TimedOut:
			if i == 0 {
				return fmt.Errorf("the lock was not granted: %+v", outcome)
			}
		}
	}
	conflict, err := c.AcquireSemaphoreWithResponse(ctx, "a/b", &api.AcquireSemaphoreParams{XDflockdSession: sessions[0]}, api.SemaphoreAcquire{Limit: 2})
	if err := ok(err, conflict.HTTPResponse, conflict.JSON409 != nil && conflict.JSON409.Error == "limit_mismatch", conflict.JSON409); err != nil {
		return err
	}
	released, err := c.ReleaseLockWithResponse(ctx, "a/b", &api.ReleaseLockParams{XDflockdSession: sessions[0]}, api.Release{Token: token})
	return ok(err, released.HTTPResponse, released.StatusCode() == http.StatusNoContent, nil)
}

func call(ctx context.Context, c *api.ClientWithResponses) error {
	var body api.Call
	body.Id, body.Call.Function = "r", "urn:cline:forrst:ext:atomic-lock:fn:status"
	body.Call.Arguments = &map[string]any{"key": "lock:k"}
	body.Protocol = api.Protocol{Name: "forrst", Version: "0.1.0"}
	status, err := c.CallWithResponse(ctx, nil, body)
	return ok(err, status.HTTPResponse, status.JSON200 != nil && status.JSON200.Result != nil, status.JSON200)
}
