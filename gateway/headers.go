package gateway

import "net/http"

// Values of headers of every answer, allocated once.
var (
	noStore    = []string{"no-store"}
	noReferrer = []string{"no-referrer"}
	noSniff    = []string{"nosniff"}
)

// setHeaders sets the headers of every answer. Paths and answers contain credentials, so
// caches must not store answers, web pages must not pass paths on as referrers, and
// browsers must not guess the type of an answer.
func setHeaders(header http.Header) {
	header["Cache-Control"] = noStore
	header["Referrer-Policy"] = noReferrer
	header["X-Content-Type-Options"] = noSniff
}
