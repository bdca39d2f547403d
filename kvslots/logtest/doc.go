// Package logtest looks for secrets in what programs log and store while they are tested. It is
// for this module's own tests only, and not internal, since tests outside of kvslots use it, too.
package logtest
