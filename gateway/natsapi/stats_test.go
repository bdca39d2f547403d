package natsapi

import (
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

func TestSemantic(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	for text, want := range map[string]string{
		"v1.2.3":       "1.2.3",
		"1.2.3-rc.1+x": "1.2.3-rc.1+x",
		"v0.0.0-20261121003358-ef550df8b4b5+dirty": "0.0.0-20261121003358-ef550df8b4b5+dirty",
		"v1.2.4-0.20261121003358-ef550df8b4b5":     "1.2.4-0.20261121003358-ef550df8b4b5",
		"v1.2.3-4-gef550df":                        "1.2.3-4-gef550df",
		"ef550df-dirty":                            "0.0.0+ef550df-dirty",
		"(devel)":                                  "0.0.0+-devel-",
		"unknown":                                  "0.0.0+unknown",
		"":                                         "0.0.0",
	} {
		if got := semantic(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		service, err := micro.AddService(nc, micro.Config{Name: subjects.Service, Version: semantic(text)})
		if err != nil {
			t.Errorf("micro refuses %q: %v", semantic(text), err)
			continue
		}
		if err := service.Stop(); err != nil {
			t.Error(err)
		}
	}
}
