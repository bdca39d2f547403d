package clock

import "testing"

func TestNowGoesOn(t *testing.T) {
	for before := Now(); ; {
		switch now := Now(); {
		case now < before:
			t.Fatal("went back")
		case now > before:
			return
		}
	}
}
