package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// natsURL returns the URL of serve's NATS listener.
func (p *program) natsURL(t *testing.T) string {
	t.Helper()
	return p.logs.waitFor(t, "listening")["nats"].(string)
}

func connectNATS(t *testing.T, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// HTTP and NATS clients share the same pools.
func TestServeOverNATS(t *testing.T) {
	p := startServe(t, map[string]string{"KVSLOTS_NATS_PASSWORD": "hunter2"},
		"--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--nats-user", "u", "--log-level", "debug")
	if nc, err := nats.Connect(p.natsURL(t)); !errors.Is(err, nats.ErrAuthorization) {
		nc.Close()
		t.Errorf("without a password: %v", err)
	}
	refused := make(chan error, 100)
	c := natsclient.New(connectNATS(t, p.natsURL(t), nats.UserInfo("u", "hunter2")), client.Config{Retrying: func(err error) { refused <- err }})
	id := uuid.MustParse(pool)
	kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), id, 1)))
	lease, err := c.Borrow(t.Context(), id, kvslots.WithFixedTTL(30*time.Second), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 409, "")
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := c.Borrow(ctx, id, kvslots.WithFixedTTL(30*time.Second), kvslots.WithWait(30*time.Second))
		waited <- err
	}()
	p.eventually(t, "/l/"+pool, `"waiting":1`)
	p.stop()
	if err := <-refused; !errors.Is(err, kvslots.ErrUnavailable) || !strings.Contains(err.Error(), "draining") {
		t.Errorf("the waiter got %v", err)
	}
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the waiter ends with %v", err)
	}
	if code := p.exitCode(t); code != exitDone {
		t.Errorf("exit code %d; logs:\n%s", code, p.logs)
	}
	for _, secret := range []string{"hunter2", pool, lease.ID().String()} {
		if strings.Contains(p.logs.String(), secret) {
			t.Errorf("%s is in the logs:\n%s", secret, p.logs)
		}
	}
}

// A client beyond the share of its address is refused and counted. By default one address may have
// half of the NATS clients.
func TestServeLimitsNATSClients(t *testing.T) {
	for limit, served := range map[string]int{"--max-connections-per-ip=3": 3, "--nats-max-connections=4": 2} {
		p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", limit)
		for range served {
			connectNATS(t, p.natsURL(t))
		}
		if nc, err := nats.Connect(p.natsURL(t)); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			nc.Close()
			t.Errorf("%s: one more client: %v", limit, err)
		}
		p.want(t, "GET", "/metrics", "", 200, `kvslots_limit_refusals_total{limit="nats_max_connections_per_ip"} 1`)
	}
}

// A gateway on an external NATS server answers its clients, with any credentials.
func TestServeOverAnExistingNATS(t *testing.T) {
	pair, public, seedFile := newNkey(t)
	for _, c := range []struct {
		name   string
		change func(*server.Options)
		args   []string
		let    nats.Option
	}{
		{"token", func(o *server.Options) { o.Authorization = "t0ken" }, []string{"--nats-token", "t0ken"}, nats.Token("t0ken")},
		{"nkey", func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, []string{"--nats-nkey", seedFile}, nats.Nkey(public, pair.Sign)},
		{"user", func(o *server.Options) { o.Username, o.Password = "kv", "hunter2" }, []string{"--nats-user", "kv", "--nats-password", "hunter2"}, nats.UserInfo("kv", "hunter2")},
		{"nothing", func(*server.Options) {}, nil, nats.Name("nobody")},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()}
			c.change(&options)
			_, url := runNATS(t, options)
			p := startServe(t, noEnv, append(c.args, "--nats-url", "nats://"+closedPort(t)+", "+url)...)
			client := natsclient.New(connectNATS(t, url, c.let), client.Config{})
			if _, err := client.Register(t.Context(), uuid.MustParse(pool), 3); err != nil {
				t.Error(err)
			}
			p.want(t, "GET", "/l/"+pool, "", 200, `"count":3`)
			p.want(t, "GET", "/ready", "", 200, `{"status":"ready","sync":"external"}`)
			p.end(t)
			if _, err := os.Stat("kvslots-data"); err == nil {
				t.Error("a data directory was made for nothing")
			}
		})
	}
}

// TLS at the listener, and to an external NATS server.
func TestServeOverTLS(t *testing.T) {
	cert, key := selfSigned(t)
	listening := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0",
		"--nats-tls-cert", cert, "--nats-tls-key", key, "--nats-token", "t0ken")
	c := natsclient.New(connectNATS(t, listening.natsURL(t), nats.RootCAs(cert), nats.Token("t0ken")), client.Config{})
	if _, err := c.Register(t.Context(), uuid.MustParse(pool), 1); err != nil {
		t.Error(err)
	}

	config, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: cert, KeyFile: key})
	kvslotstest.Must(t, err)
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), TLS: true, TLSConfig: config})
	external := startServe(t, noEnv, "--nats-url", url, "--nats-tls-ca", cert)
	external.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	if code, _, stderr := call(t, noEnv, "serve", "--http-addr", "127.0.0.1:0", "--nats-url", url); code != exitFailed {
		t.Errorf("without the authority: exit code %d, %s", code, stderr)
	}
}

// selfSigned writes a certificate for 127.0.0.1, and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kvslotstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	kvslotstest.Must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	kvslotstest.Must(t, err)
	cert = writeFile(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	key = writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	return cert, key
}

// A bucket has the number of replicas with which it was created, whatever --replicas says
// later. An operator who asks for another number learns it.
func TestReplicasOfAnotherBucket(t *testing.T) {
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir()})
	for _, args := range [][]string{nil, {"--replicas", "1"}} {
		p := startServe(t, noEnv, append(args, "--nats-url", url)...)
		p.stop()
		p.exitCode(t)
	}
	code, _, stderr := call(t, settings.Environment{"KVSLOTS_REPLICAS": "3"}, "serve", "--http-addr", "127.0.0.1:0", "--nats-url", url)
	const want = "the bucket's number of replicas is 1, and KVSLOTS_REPLICAS is 3: change one of them;"
	if code != exitFailed || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestManualNATS runs the session in the manual of natsapi over a socket.
func TestManualNATS(t *testing.T) {
	block := regexp.MustCompile("(?s)```text\n(< .*?)```").FindStringSubmatch(readDocument(t, natsManual))
	if block == nil {
		t.Fatal("no session in the manual")
	}
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.natsURL(t), "nats://"))
	kvslotstest.Must(t, err)
	defer conn.Close()
	lines := &natsLines{socket: bufio.NewScanner(conn)}
	s := &session{}
	for line := range strings.Lines(block[1]) {
		line = strings.TrimSuffix(line, "\n")
		text := s.translate(line[min(2, len(line)):])
		switch {
		case strings.HasPrefix(line, "> "):
			kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, text+"\r\n")))
		default:
			received, ok := lines.next()
			if !ok {
				t.Fatalf("the server hung up before %q: %v", line, lines.socket.Err())
			}
			s.learn(text, received)
			if got, want := onlyOurs(received), onlyOurs(s.translate(text)); got != want {
				t.Fatalf("got %s\nwant %s", got, want)
			}
		}
	}
}

// natsLines reads lines from a socket, with the fields of each header sorted, since their
// order varies.
type natsLines struct {
	socket *bufio.Scanner
	header []string
}

func (l *natsLines) next() (string, bool) {
	if len(l.header) > 0 {
		line := l.header[0]
		l.header = l.header[1:]
		return line, true
	}
	if !l.socket.Scan() {
		return "", false
	}
	if l.socket.Text() != "NATS/1.0" {
		return l.socket.Text(), true
	}
	for l.socket.Scan() && l.socket.Text() != "" {
		l.header = append(l.header, l.socket.Text())
	}
	slices.Sort(l.header)
	l.header = append(l.header, "")
	return "NATS/1.0", true
}

// onlyOurs replaces text that differs between runs: ids, times, and the server's
// description of itself.
func onlyOurs(line string) string {
	line = regexp.MustCompile(`^INFO .*`).ReplaceAllString(line, "INFO …")
	line = regexp.MustCompile(`_KVSLOTS\.\w+\.\w+\.\w+`).ReplaceAllString(line, "_KVSLOTS.…")
	line = regexp.MustCompile(`^HMSG (.*) \d+ \d+$`).ReplaceAllString(line, "HMSG $1") // a header's line contains lengths
	line = regexp.MustCompile(`Kvslots-Waited: \d+`).ReplaceAllString(line, "Kvslots-Waited: …")
	line = regexp.MustCompile(`X-Request-Id: [0-9a-f]{16}`).ReplaceAllString(line, "X-Request-Id: …")
	line = regexp.MustCompile(`Kvslots-Store: [A-Z2-7]{26}`).ReplaceAllString(line, "Kvslots-Store: …")
	return strings.TrimSpace(anyTime(line))
}
