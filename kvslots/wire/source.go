package wire

import "github.com/kvslots/kvslots/kvslots"

// Source is a request as a transport has received it.
type Source interface {
	// Param returns a parameter in the URL. ok is false for a request without a URL, as over
	// NATS, whose body contains all parameters.
	Param(name string) (value string, ok bool)

	// Header returns the values of a header.
	Header(name string) []string

	// Body returns the body. It may block until the body has arrived.
	Body() ([]byte, error)
}

// target is what requests are about. It is an index of targets.
type target uint8

const (
	nothing target = iota
	aPool
	aSession
	aLock
	aSemaphore
	aPage // of the statistics
	aFunction
)

var targets = [...]struct {
	param string // in the URL
	kind  kvslots.Kind
}{
	aPool: {param: "id"}, aSession: {param: "id"}, aPage: {param: "pools_after"},
	aLock: {"key", kvslots.KindLock}, aSemaphore: {"key", kvslots.KindSemaphore}, aFunction: {},
}

// Read reads the parameters of a request. The errors are a *kvslots.RangeError, ErrMalformed,
// ErrTooLarge, and those of from.Body.
func (r *Route) Read(from Source, p *Params) (err error) {
	if r.about == aFunction {
		p.Envelope, err = readEnvelope(from)
		return err
	}
	name, located := from.Param(targets[r.about].param)
	if located && r.about == aPool { // before the body is read
		if p.Pool, err = ParseID("id", name); err != nil {
			return err
		}
	}
	var body Fields
	if r.read != nil || !located {
		if body, err = r.parse(from); err != nil {
			return err
		}
	}
	p.Kind = targets[r.about].kind
	if located {
		err = r.locate(name, from, p)
	} else {
		err = r.locateInBody(body, p)
	}
	if err != nil || r.read == nil {
		return err
	}
	return r.read(body, p)
}

// readEnvelope reads a request for a function, whose parameters package forrst parses.
func readEnvelope(from Source) (*Envelope, error) {
	body, err := from.Body()
	e := &Envelope{Body: body}
	if values := from.Header(AuthorizationHeader); len(values) > 0 {
		e.Authorization = values[0]
	}
	return e, err
}

func (r *Route) parse(from Source) (Fields, error) {
	body, err := from.Body()
	switch {
	case err != nil:
		return Fields{}, err
	case r.about == aPool:
		return ParseLax(body)
	}
	return ParseStrict(body)
}

// locate sets what a request with a URL is about. The session of a lock or a semaphore is in
// a header.
func (r *Route) locate(name string, from Source, p *Params) error {
	switch r.about {
	case aSession:
		p.Session = name
	case aPage:
		p.PoolsAfter = name
	case aLock, aSemaphore:
		session := from.Header(SessionHeader)
		if len(session) != 1 || session[0] == "" {
			return sessionMissing("header " + SessionHeader)
		}
		p.Session, p.Key = session[0], name
		return CheckKey(name)
	}
	return nil
}

func (r *Route) locateInBody(body Fields, p *Params) (err error) {
	switch r.about {
	case aPool:
		p.Pool, err = body.Pool()
	case aSession:
		p.Session, err = body.Session()
	case aLock, aSemaphore:
		if p.Session, err = body.Session(); err == nil {
			p.Key, err = body.Key()
		}
	}
	return err
}

// StatusOf returns the Status of an error in the API of the route: see StatusOf and CodeOf.
func (r *Route) StatusOf(err error) Status {
	if r.about == aPool {
		return StatusOf(err)
	}
	return CodeOf(err)
}
