package natstest

import "testing"

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Err returns the error of a call of which nothing else is wanted.
func Err[T any](_ T, err error) error { return err }
