// Package settings has the flags of serve and of the client commands, with their defaults,
// the rules between them, and the files that they name. Load sets flags from the command
// line, the environment and the configuration file, in this order of precedence, and checks
// them.
//
// Begin with serve.go, the table of the flags of serve, then sources.go, and serve_rules.go, which has the
// rules between flags.
package settings
