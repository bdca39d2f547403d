package forrst_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// example returns an example of Forrst's specification, from "Atomic Lock".
func example(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "examples", name+".json"))
	kvslotstest.Must(t, err)
	var value any
	kvslotstest.Must(t, json.Unmarshal(text, &value))
	return value
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	kvslotstest.Must(t, err)
	return string(text)
}

var (
	// additions are fields of our answers that Forrst's examples do not have.
	additions = []string{"fence", "retryable"}

	// variable are required fields whose values differ from run to run.
	variable = []string{"owner", "expires_at", "acquired_at", "ttl_remaining"}
)

// differences returns how an answer differs from the example.
func differences(at string, got, want any) []string {
	theirs, ok := want.(map[string]any)
	ours, same := got.(map[string]any)
	if !ok || !same {
		if entries, ok := want.([]any); ok {
			return entryDifferences(at, got, entries)
		}
		if !reflect.DeepEqual(got, want) {
			return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
		}
		return nil
	}
	var found []string
	for name, value := range ours {
		switch wanted, known := theirs[name]; {
		case !known && !slices.Contains(additions, name):
			found = append(found, at+"."+name+" is not in the example")
		case !known:
		case slices.Contains(variable, name) && reflect.TypeOf(value) == reflect.TypeOf(wanted):
		default:
			found = append(found, differences(at+"."+name, value, wanted)...)
		}
	}
	for name := range theirs {
		if _, there := ours[name]; !there {
			found = append(found, at+"."+name+" is missing")
		}
	}
	return found
}

func entryDifferences(at string, got any, want []any) []string {
	entries, ok := got.([]any)
	if !ok || len(entries) != len(want) {
		return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
	}
	var found []string
	for i := range want {
		found = append(found, differences(fmt.Sprintf("%s[%d]", at, i), entries[i], want[i])...)
	}
	return found
}

// golden posts a request and compares the answer with the example.
func (d *testGateway) golden(t *testing.T, request string, code int, want any) answer {
	t.Helper()
	a := d.post(t, request)
	var got any
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	if found := differences("answer", got, want); len(found) > 0 || a.code != code {
		t.Errorf("%s\n got %d %s\nwant %d %s\n%s", request, a.code, a.body, code, encode(t, want), strings.Join(found, "\n"))
	}
	return a
}

// result returns an envelope with the result of a built-in function.
func result(result any) map[string]any {
	return map[string]any{"protocol": map[string]any{"name": "forrst", "version": "0.1.0"}, "id": "r", "result": result}
}

func goldenGateway(t *testing.T) *testGateway {
	_, d := startSite(t, functions(map[string]forrst.Func{
		"payments.charge": func(_ context.Context, c forrst.Call) (any, error) {
			if c.Version != "1.0.0" || string(c.Arguments) != `{"amount":100,"user_id":"user_123"}` {
				return nil, fmt.Errorf("called with %+v", c)
			}
			return map[string]string{"charge_id": "ch_abc", "status": "succeeded"}, nil
		},
		"billing.generateReport": func(context.Context, forrst.Call) (any, error) { return true, nil },
	}))
	return d
}

func TestGoldenCall(t *testing.T) {
	d := goldenGateway(t)
	request := encode(t, example(t, "call_request"))
	a := d.golden(t, request, 200, example(t, "call_response"))
	data := a.lock(t)
	expires, err := time.Parse(time.RFC3339, data.Expires)
	if err != nil || data.Expires[len(data.Expires)-1] != 'Z' || time.Until(expires) > 30*time.Second || time.Until(expires) < 10*time.Second {
		t.Errorf("expires at %s, %v", data.Expires, err)
	}
	if len(data.Owner) != 36 || data.Owner[14] != '4' {
		t.Errorf("owner %s is no UUID v4", data.Owner)
	}
	if _, err := d.store.LockOwned(t.Context(), "lock:payments.charge:user:123", "another", kvslots.WithTTL(time.Minute), kvslots.WithWait(0)); err != nil {
		t.Fatalf("not released: %v", err)
	}
	held := example(t, "held_response").(map[string]any)
	held["id"] = "req_001"
	d.golden(t, request, 423, held)
}

func TestGoldenBlock(t *testing.T) {
	t.Parallel() // waits for seconds
	d := goldenGateway(t)
	request := example(t, "block_request")
	a := d.post(t, encode(t, request))
	if data := a.lock(t); a.code != 200 || data.Owner == "" {
		t.Errorf("%d %s", a.code, a.body)
	}
	// The lock stays held. The next call waits for five seconds of real time.
	started := time.Now()
	timeout := example(t, "timeout_response").(map[string]any)
	timeout["id"] = "req_002"
	d.golden(t, encode(t, request), 408, timeout)
	if took := time.Since(started); took < 5*time.Second {
		t.Errorf("waited for %v only", took)
	}

	mismatch := encode(t, example(t, "release_request"))
	d.golden(t, mismatch, 409, example(t, "mismatch_response"))
	d.golden(t, envelope(forceRelease, `{"key":"lock:billing:report"}`, ""), 200, result(example(t, "force_release_result")))
}

func TestGoldenStatus(t *testing.T) {
	d := goldenGateway(t)
	key := `{"key":"lock:payments.charge:user:123"}`
	d.golden(t, envelope(status, key, ""), 200, result(example(t, "status_free_result")))
	kvslotstest.Must(t, kvslotstest.Err(d.store.LockOwned(t.Context(), "lock:payments.charge:user:123", "uuid-abc-123", kvslots.WithTTL(30*time.Minute), kvslots.WithWait(0))))
	d.golden(t, envelope(status, key, ""), 200, result(example(t, "status_result")))
	d.call(t, status, key, "", 200, `"owner":"uuid-abc-123"`)
	d.golden(t, envelope(release, `{"key":"lock:payments.charge:user:123","owner":"uuid-abc-123"}`, ""), 200, result(example(t, "release_result")))
}

// Several functions share one key (Forrst's specification, "Best Practices").
func TestGoldenOptions(t *testing.T) {
	d := goldenGateway(t)
	options := encode(t, example(t, "options").(map[string]any)["options"])
	d.call(t, "billing.generateReport", "", options, 200, `"scope":"global"`)
}
