package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// The files of the page for browsers have these types. They are checked as text.
func init() {
	for _, kind := range []string{"text/html", "text/css", "text/javascript", "image/svg+xml"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
}

type exchange struct {
	request     *http.Request
	requestBody []byte
	status      int
	header      http.Header
	body        []byte
}

// check reports how an exchange differs from the document.
func (c *contract) check(e exchange) error {
	if e.isPreflight() {
		return nil
	}
	route, params, err := c.find(e.request)
	switch {
	case errors.Is(err, routers.ErrPathNotFound):
		return c.checkRefusal(e, http.StatusNotFound)
	case errors.Is(err, routers.ErrMethodNotAllowed):
		return errors.Join(c.checkRefusal(e, http.StatusMethodNotAllowed), c.checkAllow(e))
	case err != nil:
		return err
	}
	input, err := e.input(route, params)
	if err != nil {
		return err
	}
	if err := e.checkAnswer(input); err != nil {
		return err
	}
	if e.status >= http.StatusMultipleChoices {
		return nil
	}
	if err := openapi3filter.ValidateRequest(e.request.Context(), input); err != nil {
		return fmt.Errorf("it was answered, but: %w", err)
	}
	return nil
}

// find finds the operation of a request. That of HEAD is GET, whose answer has no body then: the
// document says so in words, since generators of clients make nothing useful of such operations.
func (c *contract) find(r *http.Request) (*routers.Route, map[string]string, error) {
	if r.Method == http.MethodHead {
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
	}
	return c.router.FindRoute(r)
}

// isPreflight reports whether the exchange is a CORS preflight, which belongs to no
// route.
func (e exchange) isPreflight() bool {
	return e.request.Method == http.MethodOptions && e.request.Header.Get("Access-Control-Request-Method") != "" &&
		e.status == http.StatusNoContent && len(e.body) == 0
}

// input returns the request in the form that the validator expects: with decoded
// parameters, and with the media type that the gateway assumes.
func (e exchange) input(route *routers.Route, params map[string]string) (*openapi3filter.RequestValidationInput, error) {
	for name, value := range params {
		decoded, err := url.PathUnescape(value)
		if err != nil {
			return nil, err
		}
		params[name] = decoded
	}
	request := e.request.Clone(e.request.Context())
	request.Method = route.Method
	request.Body = http.NoBody
	if len(e.requestBody) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(e.requestBody))
		request.Header.Set("Content-Type", "application/json")
	}
	return &openapi3filter.RequestValidationInput{
		Request: request, PathParams: params, Route: route,
		Options: options(openapi3filter.Options{
			AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
			SkipSettingDefaults: true,
		}),
	}, nil
}

// isBusy reports whether the request was refused because of a limit or another passing condition, which
// only the name of the error says.
func (e exchange) isBusy() bool {
	return e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable
}

// options omits schemas and values from errors, which are long; report prints the
// answer anyway.
func options(o openapi3filter.Options) *openapi3filter.Options {
	o.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string { return err.Reason })
	return &o
}

// checkAnswer checks the answer with the validator. It adds checks that the validator
// lacks: of redirections, of answers to HEAD, and of answers without a body.
func (e exchange) checkAnswer(asked *openapi3filter.RequestValidationInput) error {
	operation := asked.Route.Operation
	documented := operation.Responses.Status(e.status)
	if documented == nil {
		return fmt.Errorf("%s does not know the status %d", operation.OperationID, e.status)
	}
	if e.isBusy() && e.header.Get(wire.ErrorHeader) != "" && documented.Value.Headers[wire.ErrorHeader] == nil {
		return fmt.Errorf("%s does not list %s with status %d", operation.OperationID, wire.ErrorHeader, e.status)
	}
	bodiless := len(documented.Value.Content) == 0 || e.request.Method == http.MethodHead
	if bodiless && len(e.body) > 0 {
		return fmt.Errorf("%s has no body with status %d", operation.OperationID, e.status)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: e.status, Header: e.header,
		Options: options(openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: bodiless}),
	}
	input.SetBodyBytes(e.body)
	return openapi3filter.ValidateResponse(e.request.Context(), input)
}

// checkRefusal checks the answer to a request that the document does not describe. It
// has the given status, or one of a middleware, and the body of an error.
func (c *contract) checkRefusal(e exchange, status int) error {
	required := map[int]string{
		http.StatusUnauthorized:    "WWW-Authenticate",
		http.StatusTooManyRequests: wire.RetryAfterHeader,
		status:                     "Content-Type",
	}
	header, ok := required[e.status]
	if !ok {
		return fmt.Errorf("no such operation, which is answered %d", status)
	}
	for _, header := range []string{header, wire.RequestIDHeader} {
		if e.header.Get(header) == "" {
			return fmt.Errorf("no %s with status %d", header, e.status)
		}
	}
	if e.request.Method == http.MethodHead {
		return nil
	}
	return c.checkFailure(e)
}

func (c *contract) checkFailure(e exchange) error {
	if kind := e.header.Get("Content-Type"); kind != "application/json" {
		return fmt.Errorf("an error of Content-Type %q", kind)
	}
	var failure any
	if err := json.Unmarshal(e.body, &failure); err != nil {
		return err
	}
	var wrong []error
	for _, name := range []string{"Failure", "CodedFailure", "CallFailure"} {
		err := c.doc.Components.Schemas[name].Value.VisitJSON(failure, openapi3.EnableJSONSchema2020())
		if err == nil {
			return nil
		}
		wrong = append(wrong, fmt.Errorf("no %s: %w", name, err))
	}
	return errors.Join(wrong...)
}

// checkAllow checks that Allow lists exactly the methods of the path.
func (c *contract) checkAllow(e exchange) error {
	if e.status != http.StatusMethodNotAllowed {
		return nil
	}
	var want []string
	for _, method := range []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"} {
		asked := e.request.Clone(e.request.Context())
		asked.Method = method
		if _, _, err := c.find(asked); err == nil {
			want = append(want, method)
		}
	}
	got := strings.Split(e.header.Get("Allow"), ", ")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("allow %v, but there are %v", got, want)
	}
	return nil
}
