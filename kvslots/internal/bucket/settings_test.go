package bucket

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// Each setting of a stream is named if it is changed, but for those that an operator may choose.
func TestCheckSettings(t *testing.T) {
	if err := CheckSettings(StreamConfig(3)); err != nil {
		t.Fatal(err)
	}
	free := []string{"description", "num_replicas", "placement", "compression", "duplicate_window"}
	of := reflect.TypeFor[jetstream.StreamConfig]()
	for i := range of.NumField() {
		c := StreamConfig(1)
		change(reflect.ValueOf(&c).Elem().Field(i))
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		err := CheckSettings(c)
		switch {
		case slices.Contains(free, name):
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case name == "metadata":
			if !errors.Is(err, ErrWrongBucket) {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, ErrWrongBucket) || !strings.Contains(err.Error(), name+" is "):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// change gives a setting another value than that of StreamConfig.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString("other")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.SetZero()
	case reflect.Struct:
		change(v.Field(0))
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 1)
	default:
		v.SetInt(map[bool]int64{false: 1, true: 0}[v.Int() == 1])
	}
}

// While the stream is edited, Ready names each setting, also if the peer's writes succeed.
func TestEditedStream(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   []string
	}{
		"refuses writes": {func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, []string{"discard_new_per_subject is true, not false"}},
		"moves entries": {func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: SubjectPrefix + ">", Destination: SubjectPrefix + "x.>"}
		}, []string{`subject_transform is {"src":"$KV.kvslots.>","dest":"$KV.kvslots.x.>"}, not null`}},
		"two settings": {func(c *jetstream.StreamConfig) { c.MaxMsgSize, c.AllowAtomicPublish = 100<<10, true },
			[]string{"max_msg_size is 102400, not -1", "allow_atomic is true, not false"}},
		"allowed": {func(c *jetstream.StreamConfig) {
			c.Description, c.Compression, c.Duplicates = "ours", jetstream.S2Compression, time.Minute
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := natstest.Start(t, "").Connect()
			b := openBucket(t, nc, Config{})
			live(t, b)
			c := streamOf(t, nc).Config
			kept := c
			edit.change(&c)
			natstest.Must(t, natstest.Err(b.js.UpdateStream(t.Context(), c)))
			natstest.Eventually(t, "Ready names the settings", func() bool {
				err := b.Ready()
				return (err == nil) == (edit.want == nil) && !slices.ContainsFunc(edit.want, func(w string) bool { return !strings.Contains(err.Error(), w) })
			})
			natstest.Must(t, natstest.Err(b.js.UpdateStream(t.Context(), kept)))
			natstest.Eventually(t, "the bucket is ready", func() bool { return b.Ready() == nil })
		})
	}
}
