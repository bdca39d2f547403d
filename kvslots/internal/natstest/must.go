package natstest

import "testing"

func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Err returns the error of a call of which nothing else is wanted.
func Err[T any](_ T, err error) error { return err }
