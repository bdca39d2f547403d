package promisestest

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// Cost logs how much processor time a driver's client takes for a borrow and a return, beside the HTTP client that it is
// made of, in turn. It is skipped unless KVSLOTS_COST is set, as by make bench-clients: it asserts nothing.
func Cost(t *testing.T, driver *exec.Cmd) {
	if os.Getenv("KVSLOTS_COST") == "" {
		t.Skip("measures for a minute: make bench-clients")
	}
	const rounds, pairs, warm = 15, 500, 3
	store, _, url := startGateway(t)
	ask, pool := start(t, driver), uuid.New()
	if _, err := store.Register(t.Context(), pool, 1); err != nil {
		t.Fatal(err)
	}
	took := map[string][]float64{}
	for range warm + rounds {
		for _, do := range []string{"raw pairs", "pairs"} {
			got := ask(t, call{URL: url, Do: do, Pool: pool.String(), TTL: 60, Pairs: pairs})
			if got.Outcome != granted {
				t.Fatal(got.Outcome)
			}
			took[do] = append(took[do], got.CPU/pairs*1e6)
		}
	}
	median := func(of []float64) float64 {
		of = slices.Clone(of[warm:])
		slices.Sort(of)
		return of[len(of)/2]
	}
	raw, client := median(took["raw pairs"]), median(took["pairs"])
	t.Logf("%.0f µs of processor time a pair, %.0f µs without the client: %.2f times as much", client, raw, client/raw)
}
