// Package settings has the flags of serve and of the client commands, with their defaults,
// the rules between them, and the files that they name. Load sets flags from the command
// line, the environment and the configuration file, in this order of precedence, and checks
// them.
//
// Begin with serve.go, where each flag of serve is one row; table.go says what a row has. Then read
// sources.go, and serve_rules.go for the rules that no row has.
package settings
