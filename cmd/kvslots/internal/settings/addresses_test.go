package settings

import (
	"testing"
)

func TestLoopbackAddresses(t *testing.T) {
	for text, ok := range map[string]bool{
		"127.0.0.1:6060": true, "127.8.9.1:0": true, "[::1]:0": true, "localhost:6060": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:0": false, "192.0.2.1:1": false, "example.com:1": false,
		"127.0.0.1": false, "127.0.0.1:": false, "::1": false, "": false, "localhost.example.com:1": false,
	} {
		var got string
		if err := loopback(&got).Set(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestHostNames(t *testing.T) {
	var hosts []string
	flag := texts(&hosts, "names", checkHost)
	for _, right := range []string{"", "a", "slots.example.com", "my_host, other-host.example"} {
		if err := flag.Set(right); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
	for _, wrong := range []string{"*", "https://a", "a:80", "a b", "a/", ".a", "a."} {
		if flag.Set(wrong) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
