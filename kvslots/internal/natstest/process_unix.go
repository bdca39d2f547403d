//go:build unix

package natstest

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// asServer makes the test program run as a nats-server. Its value is a configuration file.
const asServer = "KVSLOTSTEST_AS_SERVER"

// RunAsServer runs a nats-server and does not return, if Process has started this program for
// that. TestMain of a package that uses Process or ProcessCluster calls it first.
func RunAsServer() {
	path := os.Getenv(asServer)
	if path == "" {
		return
	}
	if err := runAsServer(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAsServer runs until standard input ends, which is when the test's process has died.
func runAsServer(path string) error {
	signal.Ignore(syscall.SIGINT) // of the terminal: the test ends this process
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return err
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	for buffer := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(buffer); err != nil {
			return nil
		}
	}
}

// Process is a nats-server with JetStream in a process of its own, which can be killed and
// paused. It ends at the end of the test.
type Process struct {
	t       testing.TB
	name    string
	url     string
	config  string
	process *exec.Cmd // nil while it is killed
}

// startProcess starts a server with what this package's Start also sets. Of the other options
// it knows only those of a cluster.
func startProcess(t testing.TB, change func(*server.Options)) *Process {
	t.Helper()
	dir := t.TempDir()
	opts := server.Options{Port: Port(t)}
	change(&opts)
	p := &Process{t: t, name: opts.ServerName, url: "nats://" + address(opts.Port), config: filepath.Join(dir, "nats.conf")}
	var routes []string
	for _, r := range opts.Routes {
		routes = append(routes, fmt.Sprintf("%q", r))
	}
	text := fmt.Sprintf("server_name: %q\nlisten: %q\njetstream { store_dir: %q }\n", opts.ServerName, address(opts.Port), filepath.Join(dir, "data"))
	if c := opts.Cluster; c.Name != "" {
		text += fmt.Sprintf("cluster { name: %q, listen: %q, cluster_advertise: %q, routes: [%s] }\n",
			c.Name, address(c.Port), c.Advertise, strings.Join(routes, ", "))
	}
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the server, on the same ports and the same directory as before.
func (p *Process) Start() {
	p.t.Helper()
	if p.process != nil {
		return
	}
	path, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	process := exec.Command(path)
	process.Env = append(os.Environ(), asServer+"="+p.config)
	process.Stderr = os.Stderr
	if _, err := process.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.process = process
}

// Kill kills the server as kill -9 does. Its data stays.
func (p *Process) Kill() {
	if p.process == nil {
		return
	}
	_ = p.process.Process.Kill()
	_ = p.process.Wait() // returns that it was killed
	p.process = nil
}

// Pause stops the server's process, with SIGSTOP: its connections stay, and it does nothing.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if p.process == nil {
		return
	}
	if err := p.process.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Process) URL() string { return p.url }

// Name returns the server's name, as it stands in the info of a stream.
func (p *Process) Name() string { return p.name }

// Connect connects to this server, and to no other one, ever again. The connection is closed
// at the end of the test.
func (p *Process) Connect(opts ...nats.Option) *nats.Conn {
	p.t.Helper()
	return connectTo(p.t, p.url, append([]nats.Option{nats.IgnoreDiscoveredServers()}, opts...))
}

// ProcessCluster is a cluster of three nats-servers, each in a process of its own, with routes
// that can be cut.
type ProcessCluster struct {
	*Links
	Servers []*Process
}

// StartProcesses starts a cluster, and waits until all servers take clients.
func StartProcesses(t testing.TB) *ProcessCluster {
	t.Helper()
	c := &ProcessCluster{Links: NewLinks(t, clusterSize)}
	for n := range clusterSize {
		c.Servers = append(c.Servers, startProcess(t, func(o *server.Options) { c.Configure(n, o) }))
	}
	for _, p := range c.Servers {
		Eventually(t, "a server in a process", func() bool {
			nc, err := nats.Connect(p.url)
			if err == nil {
				nc.Close()
			}
			return err == nil
		})
	}
	return c
}

// StartProcess starts a single server, and waits until it takes clients.
func StartProcess(t testing.TB) *Process {
	t.Helper()
	p := startProcess(t, func(o *server.Options) { o.ServerName = "n0" })
	nc := p.Connect()
	Eventually(t, "a server in a process", nc.IsConnected)
	nc.Close()
	return p
}

func (c *ProcessCluster) URL() string {
	var urls []string
	for _, p := range c.Servers {
		urls = append(urls, p.url)
	}
	return strings.Join(urls, ",")
}

func (c *ProcessCluster) Connect(opts ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connectTo(c.t, c.URL(), opts)
}

func (c *ProcessCluster) Number(name string) int {
	c.t.Helper()
	for n, p := range c.Servers {
		if p.name == name {
			return n
		}
	}
	c.t.Fatalf("no server is %q", name)
	return 0
}

func connectTo(t testing.TB, urls string, opts []nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(urls, append([]nats.Option{
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
