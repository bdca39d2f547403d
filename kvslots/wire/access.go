package wire

import (
	"net/http"
	"slices"
)

// Internal is the Status of an unknown error.
var Internal = Status{Code: http.StatusInternalServerError, Name: "internal_error", Text: "internal error"}

// The answers of the gateway's HTTP server to requests that it refuses before they reach
// an operation.
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

// clientFaults are the names of those refusals whose status is below 500.
var clientFaults = []string{Unauthorized.Name, forbidden, NotFound.Name, MethodNotAllowed.Name, RateLimited.Name, MaxConnectionsPerIP.Name}

// isClientFault reports whether a refusal is one of clientFaults. Without a name, as from
// a proxy, the status alone decides.
func isClientFault(name string, status int) bool {
	if name == "" {
		return status < http.StatusInternalServerError && status != http.StatusConflict
	}
	return slices.Contains(clientFaults, name)
}
