package natstest

import (
	"net"
	"sync"
	"testing"
)

// proxy forwards TCP connections from a port of 127.0.0.1 to another one. It can be cut, and
// stops at the end of the test.
type proxy struct {
	addr, target string
	all          sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener  // nil while connections are refused
	flowing  chan struct{} // is closed while nothing is black-holed
	pipes    map[*pipe]struct{}
	closed   bool
}

type pipe struct {
	in, out net.Conn // out is nil until the target is dialed
	closed  chan struct{}
}

func startProxy(t testing.TB, port int, target string) *proxy {
	t.Helper()
	p := &proxy{addr: address(port), target: target, flowing: make(chan struct{}), pipes: map[*pipe]struct{}{}}
	if err := p.heal(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) stop() {
	p.mu.Lock()
	p.closed = true
	p.refuseLocked()
	p.mu.Unlock()
	p.all.Wait()
}

func (p *proxy) cut(how Cut) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if how == Refuse {
		p.refuseLocked()
		return nil
	}
	select {
	case <-p.flowing:
		p.flowing = make(chan struct{})
	default:
	}
	return p.listenLocked()
}

func (p *proxy) heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
	default:
		close(p.flowing)
	}
	return p.listenLocked()
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLocked()
}

// listenLocked listens if connections are refused.
func (p *proxy) listenLocked() error {
	if p.listener != nil || p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err == nil {
		p.listener = listener
		p.all.Go(func() { p.accept(listener) })
	}
	return err
}

func (p *proxy) refuseLocked() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.resetLocked()
}

func (p *proxy) resetLocked() {
	for c := range p.pipes {
		p.endLocked(c, reset)
	}
}

func (p *proxy) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		c := &pipe{in: in, closed: make(chan struct{})}
		p.mu.Lock()
		if p.listener != listener { // refused meanwhile
			reset(in)
		} else {
			p.pipes[c] = struct{}{}
			p.all.Go(func() { p.serve(c) })
		}
		p.mu.Unlock()
	}
}

// serve dials the target, and forwards until the connection ends.
func (p *proxy) serve(c *pipe) {
	defer p.end(c)
	if !p.pass(c) {
		return
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil || !p.dialed(c, out) {
		return
	}
	var there sync.WaitGroup
	there.Go(func() { p.forward(c, out, c.in) })
	p.forward(c, c.in, out)
	there.Wait()
}

// dialed adds the connection to the target, unless the pipe has been reset.
func (p *proxy) dialed(c *pipe, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.pipes[c]; !ok {
		reset(out)
		return false
	}
	c.out = out
	return true
}

// forward copies from one side to the other. The end of one side ends the connection.
func (p *proxy) forward(c *pipe, to, from net.Conn) {
	defer p.end(c)
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if !p.pass(c) {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// pass blocks while the connection is black-holed. It reports whether the connection still
// exists.
func (p *proxy) pass(c *pipe) bool {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	select {
	case <-c.closed:
		return false
	case <-flowing:
		return true
	}
}

func (p *proxy) end(c *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(c, func(c net.Conn) { _ = c.Close() })
}

// endLocked ends a connection, unless it has ended.
func (p *proxy) endLocked(c *pipe, end func(net.Conn)) {
	if _, ok := p.pipes[c]; !ok {
		return
	}
	delete(p.pipes, c)
	close(c.closed)
	end(c.in)
	if c.out != nil {
		end(c.out)
	}
}

// reset closes a connection so that the other side gets an error, and nothing that was not
// sent yet.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
