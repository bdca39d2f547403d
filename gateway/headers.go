package gateway

import "net/http"

// The values of headers that each answer has, made once.
var (
	noStore    = []string{"no-store"}
	noReferrer = []string{"no-referrer"}
	noSniff    = []string{"nosniff"}
)

// setHeaders sets what each answer has. Paths are credentials and answers contain some:
// no cache may keep an answer, no page may pass a path on, and no browser may guess at
// what an answer is.
func setHeaders(header http.Header) {
	header["Cache-Control"] = noStore
	header["Referrer-Policy"] = noReferrer
	header["X-Content-Type-Options"] = noSniff
}
