package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Readiness is what a server answers at /ready.
type Readiness struct {
	Ready        bool
	Status, Sync string // of a gateway; "" if the answer is not a gateway's
	Reason       string // why it is not ready
	Code         int    // HTTP status
	HTTP         string // its text
}

// Ready asks a gateway over HTTP whether it is ready for borrowers, as load balancers do. It sends no token. The
// errors are an *Unanswered, ErrTLS, ErrNoTLS, the cause of ctx, and errors.ErrUnsupported over NATS and for
// several URLs.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	over, ok := c.gateways.(*httpTransport)
	if !ok {
		return Readiness{}, errors.ErrUnsupported
	}
	message, err := http.NewRequestWithContext(ctx, http.MethodGet, over.base+"/ready", nil)
	if err != nil {
		return Readiness{}, withoutURL(err)
	}
	response, content, err := exchange(&over.client, message)
	if err != nil {
		return Readiness{}, err
	}
	r := Readiness{Code: response.StatusCode, HTTP: response.Status}
	var body struct{ Status, Sync, Reason string }
	if json.Unmarshal(content, &body) == nil {
		r.Status, r.Sync, r.Reason = body.Status, body.Sync, body.Reason
	}
	r.Ready = r.Code == http.StatusOK && r.Status == "ready"
	return r, nil
}
