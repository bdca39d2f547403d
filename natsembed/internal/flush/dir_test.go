package flush

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

func TestCheckStream(t *testing.T) {
	good := server.StreamConfig{Name: "S", Storage: server.FileStorage, Replicas: 1}
	cases := []struct {
		name   string
		change func(*server.StreamConfig)
		ok     bool
	}{
		{"as the bucket", func(*server.StreamConfig) {}, true},
		{"memory", func(c *server.StreamConfig) { c.Storage = server.MemoryStorage }, false},
		{"replicas", func(c *server.StreamConfig) { c.Replicas = 3 }, false},
		{"compressed", func(c *server.StreamConfig) { c.Compression = server.S2Compression }, false},
		{"asynchronous", func(c *server.StreamConfig) { c.PersistMode = server.AsyncPersistMode }, false},
	}
	for _, c := range cases {
		cfg := good
		if c.change(&cfg); (checkStream(cfg) == nil) != c.ok {
			t.Errorf("%s: %v", c.name, checkStream(cfg))
		}
	}
}
