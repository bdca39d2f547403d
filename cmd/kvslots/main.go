// Command kvslots lends numbered slots: "kvslots serve" runs the gateway, the
// other commands ask one.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}
