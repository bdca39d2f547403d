// Command kvslots lends numbered slots. "kvslots serve" runs a gateway; most other
// commands are clients of a gateway.
//
// Begin with main.go and rootCommand. Each command has a file of its name; what client commands share is in
// lender.go, pool_command.go, operator_command.go, run_options.go and exit.go.
package main
