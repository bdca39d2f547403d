// Package reads has what is read of pools: peers fill the types in, a kvslots.Store returns them, gateways send
// them as JSON, and clients decode them.
package reads
