package wire

import (
	"net/http"
	"slices"
)

// Internal is the Status of an unknown error.
var Internal = Status{Code: http.StatusInternalServerError, Name: "internal_error", Text: "internal error"}

// The refusals of the gateway's HTTP server before a request reaches an operation, as
// StatusOf would return them.
var (
	Unauthorized     = Status{Code: http.StatusUnauthorized, Name: "unauthorized", Text: "unauthorized"}
	ForeignHost      = Status{Code: http.StatusForbidden, Name: forbidden, Text: "the gateway does not answer to this Host"}
	ForeignOrigin    = Status{Code: http.StatusForbidden, Name: forbidden, Text: "pages of other origins may not write"}
	NotFound         = Status{Code: http.StatusNotFound, Name: "not_found", Text: "not found"}
	MethodNotAllowed = Status{Code: http.StatusMethodNotAllowed, Name: "method_not_allowed", Text: "method not allowed"}
	RateLimited      = Status{Code: http.StatusTooManyRequests, Name: "rate_limited", Text: "rate limited"}

	MaxConnections      = Status{Code: http.StatusServiceUnavailable, Name: "max_connections", Text: "too many connections", Retry: true}
	MaxConnectionsPerIP = Status{Code: http.StatusTooManyRequests, Name: "max_connections_per_ip", Text: "too many connections of the address", Retry: true}
)

const forbidden = "forbidden"

// turnedAway are the names of refusals that do not come from an operation.
var turnedAway = []string{Unauthorized.Name, forbidden, NotFound.Name, MethodNotAllowed.Name, RateLimited.Name, MaxConnectionsPerIP.Name}

// isTurnedAway reports whether a request that was refused with a name did not reach an
// operation. Without a name, as from a proxy, the status alone decides.
func isTurnedAway(name string, status int) bool {
	if name == "" {
		return status < http.StatusInternalServerError && status != http.StatusConflict
	}
	return slices.Contains(turnedAway, name)
}
