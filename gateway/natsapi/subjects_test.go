package natsapi

import (
	"slices"
	"testing"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// Clients of the embedded server may publish to what is answered, and to nothing else.
func TestEndpointsAreWhatClientsMayAsk(t *testing.T) {
	s := &Service{ops: ops.Service{Sessions: struct{ ops.Sessions }{}, Functions: struct{ ops.Functions }{}}}
	asked := []string{subjects.Confirm + "*.*"}
	for _, e := range s.endpoints() {
		asked = append(asked, e.subject)
	}
	may := slices.DeleteFunc(subjects.Requests(), func(subject string) bool { return subject[0] == '$' })
	slices.Sort(asked)
	slices.Sort(may)
	if !slices.Equal(asked, may) {
		t.Errorf("answered are %q\nallowed are  %q", asked, may)
	}
}
