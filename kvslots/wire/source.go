package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// Source is a request as a transport has received it.
type Source struct {
	// HTTP reports whether the request came over HTTP. Otherwise the body contains what HTTP
	// has in the URL and in headers.
	HTTP bool

	// Param is the first parameter in the path, and Position the second one. Query is the
	// query, encoded. They are those of a request over HTTP.
	Param, Position string
	Query           string

	// Header has the headers of the request, such as a http.Header or a nats.Header.
	Header interface{ Values(name string) []string }

	// Body is the body, if the transport has received it. Otherwise it is read from Stream,
	// whose errors may be a *http.MaxBytesError and os.ErrDeadlineExceeded.
	Body   []byte
	Stream io.Reader
}

// ReadBody returns the body. The errors are ErrTooLarge, ErrTooSlow, and ErrMalformed for a
// truncated body.
func (s *Source) ReadBody() ([]byte, error) {
	if s.Stream == nil {
		return s.Body, nil
	}
	body, err := io.ReadAll(s.Stream)
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return nil, ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, ErrTooSlow
	case err != nil:
		return nil, ErrMalformed
	}
	return body, nil
}

type target uint8

const (
	nothing target = iota
	aPool
	aSession
	aLock
	aSemaphore
	aPage // of the statistics
	aFunction

	// In requests of operators and holders.
	aRef // see OperatorParams.locate
	aList
	anyLease // of a pool, or of a lock or a semaphore by its name and a session
	aBorrow  // from a pool
)

// targetFields say over NATS what a request is about.
var targetFields = [...][]*field{
	aPool: {idField}, aSession: {sessionField}, aLock: {sessionField, keyField}, aSemaphore: {sessionField, keyField},
	aRef: {refField}, anyLease: {itsSessionField, itsField}, aBorrow: {itsField},
}

// Read reads the parameters of a request. The errors are a *kvslots.RangeError, and those of
// ReadBody.
func (r *Route) Read(from *Source, p *Params) (err error) {
	if r.has&keyed != 0 {
		if p.RequestKey, err = from.requestKey(r.has&mustKey != 0); err != nil {
			return err
		}
	}
	if r.about == aFunction {
		p.Envelope, err = from.envelope()
		return err
	}
	if from.HTTP && (r.about == aPool || r.about == aBorrow) { // before the body is read
		if p.Pool, err = from.pool(); err != nil {
			return err
		}
	}
	if r.about == aSemaphore { // the zero Kind is that of a lock
		p.Kind = kvslots.KindSemaphore
	}
	if from.HTTP && r.has&leased != 0 {
		return r.readLeased(from, p)
	}
	var in input
	if r.body != nil {
		in.body = *r.body
	}
	if !from.HTTP {
		in.target = targetFields[r.about]
	}
	if from.Position != "" {
		_ = in.add([]byte(positionField.name), []byte(from.Position))
	}
	if err = r.parse(from, &in); err != nil {
		return err
	}
	if r.has&(queried|changing) != 0 {
		p.Operator = new(OperatorParams)
		if values := from.Header.Values(AuthorizationHeader); len(values) > 0 {
			p.Operator.Authorization = values[0]
		}
	}
	if from.HTTP {
		if err = r.locate(from, p); err != nil {
			return err
		}
	}
	if err = in.decode(p); err != nil || p.Operator == nil {
		return err
	}
	if p.Operator.limit(from.HTTP); r.has&whole != 0 {
		p.Operator.Position = kvslots.WholePool
	}
	return nil
}

// readLeased reads a request over HTTP whose header has the lease: its id, or with a session the token of a grant.
func (r *Route) readLeased(from *Source, p *Params) (err error) {
	lease, _ := one(from.Header.Values(LeaseHeader))
	if p.Session, _ = one(from.Header.Values(SessionHeader)); p.Session == "" {
		if p.Pool, err = from.pool(); err == nil {
			p.LeaseID, err = ParseID("header "+LeaseHeader, lease)
		}
		return err
	}
	p.Token, p.Key = lease, from.Param
	if err = checkToken("header "+LeaseHeader, lease); err == nil {
		err = CheckKey(p.Key)
	}
	return err
}

// pool returns the id in the path of a request over HTTP, or in PoolHeader.
func (s *Source) pool() (uuid.UUID, error) {
	if s.Param != PoolInHeader {
		return ParseID("id", s.Param)
	}
	id, _ := one(s.Header.Values(PoolHeader))
	return ParseID("header "+PoolHeader, id)
}

// one returns the value of a header that must be there once, and not be empty.
func one(values []string) (value string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	return values[0], values[0] != ""
}

func (s *Source) requestKey(required bool) (string, error) {
	var values []string
	if s.Header != nil {
		values = s.Header.Values(RequestKeyHeader)
	}
	if len(values) == 0 && !required {
		return "", nil
	}
	var o kvslots.Options
	if len(values) != 1 || values[0] == "" || kvslots.WithRequestKey(values[0])(&o) != nil {
		return "", rangeError("header "+RequestKeyHeader, fmt.Sprintf("1 to %d printable ASCII characters, once", kvslots.MaxRequestKey))
	}
	return strings.Clone(values[0]), nil // a substring would keep all headers of a request over NATS in memory
}

// envelope reads a request for a function, whose parameters package forrst parses.
func (s *Source) envelope() (*Envelope, error) {
	body, err := s.ReadBody()
	e := &Envelope{Body: body}
	if values := s.Header.Values(AuthorizationHeader); len(values) > 0 {
		e.Authorization = values[0]
	}
	return e, err
}

func (r *Route) parse(from *Source, in *input) error {
	switch {
	case from.HTTP && r.body == nil:
		return nil
	case from.HTTP && r.has&queried != 0:
		return in.parseQuery(from.Query)
	}
	body, err := from.ReadBody()
	if err != nil {
		return err
	}
	return in.parse(body)
}

// locate sets what a request over HTTP is about. The session of a lock or a semaphore is in
// a header.
func (r *Route) locate(from *Source, p *Params) error {
	switch r.about {
	case aSession:
		p.Session = from.Param
	case aPage:
		query, _ := url.ParseQuery(from.Query)
		p.PoolsAfter = query.Get(PoolsAfter)
	case aRef:
		return from.locate(p.Operator)
	case aLock, aSemaphore:
		p.Session, _ = one(from.Header.Values(SessionHeader))
		p.Key = from.Param
		if err := checkSession("header "+SessionHeader, p.Session); err != nil {
			return err
		}
		return CheckKey(p.Key)
	}
	return nil
}

// locate sets what {ref} in a path names, or PoolHeader if there is one and the path has PoolInHeader.
func (s *Source) locate(o *OperatorParams) error {
	if s.Param != PoolInHeader || len(s.Header.Values(PoolHeader)) == 0 {
		return o.locate(s.Param)
	}
	id, err := s.pool()
	o.Pool = kvslots.ByID(id)
	return err
}

// StatusOf returns the Status of an error in the API of the route: see StatusOf and CodeOf.
func (r *Route) StatusOf(err error) Status {
	if r.about == aPool {
		return StatusOf(err)
	}
	return CodeOf(err)
}
