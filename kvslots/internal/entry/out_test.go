package entry

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is out of service is a map from positions to reasons, sorted by position.
func TestWithOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, want := ConfigValue{Count: 9, Generation: 1}, map[int]string{}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			o := Out{rapid.IntRange(WholePool, 8).Draw(t, "position"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "reason"))}
			is := rapid.Bool().Draw(t, "is")
			before := v
			kept := slices.Clone(v.Out)
			origin := HashOf(OfOrigin, o.Reason)
			if is {
				v, want[o.Position] = v.WithOut(o, origin), o.Reason
			} else {
				v = v.WithIn(o.Position)
				delete(want, o.Position)
			}
			if is && v.OutOrigin != origin || v.OutOrigin.IsZero() != (len(v.Out) == 0) {
				t.Fatalf("the origin %v of %v", v.OutOrigin, v.Out)
			}
			if !slices.Equal(before.Out, kept) {
				t.Fatal("the value before has changed")
			}
			if err := v.check(); err != nil {
				t.Fatal(err)
			}
			for position := WholePool; position < 9; position++ {
				out, is := v.OutAt(position)
				if reason, wanted := want[position]; is != wanted || out.Reason != reason {
					t.Fatalf("position %d: %v, %v", position, out, is)
				}
			}
			if _, paused := want[WholePool]; v.Paused() != paused || len(v.Out) != len(slices.Collect(maps.Keys(want))) {
				t.Fatalf("%+v, want %v", v.Out, want)
			}
		}
	})
}
