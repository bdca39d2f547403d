package ops

import "testing"

func TestOrigin(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:4711":                    "192.0.2.7",
		"[::ffff:192.0.2.7]:4711":           "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:4711":       "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff:ffff:ff:ff]:12": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:4711":               "fe80::/64",
		"@":                                 "@", // a Unix domain socket
	} {
		if got := Origin(remote); got != want {
			t.Errorf("%s is from %s, want %s", remote, got, want)
		}
	}
}
