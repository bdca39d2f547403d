package server

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/metrics"
)

// certificates are those of the HTTP listener, as the files had them when they were last
// read. Handshakes use the current ones, and connections keep theirs.
type certificates struct {
	files   settings.ServerTLS
	current atomic.Pointer[tls.Config]
}

// openCertificates reads the files; it returns nil without any.
func openCertificates(files settings.ServerTLS) (*certificates, error) {
	c := &certificates{files: files}
	if loaded, err := c.load(); err != nil || !loaded {
		return nil, err
	}
	return c, nil
}

// load reads the files, and reports whether they have changed. After an error the
// certificates are as before.
func (c *certificates) load() (changed bool, err error) {
	loaded, err := c.files.Load()
	if loaded != nil {
		c.current.Store(loaded)
	}
	return loaded != nil, err
}

func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// expiry is the metric of the end of the certificate that is in force. c may be nil.
func (c *certificates) expiry() prometheus.Collector {
	return metrics.Gauge("kvslots_certificate_expiry_timestamp_seconds", "When the certificate of HTTP ends that is in force, in seconds since 1970; 0 without TLS.", nil,
		func() float64 {
			if c == nil {
				return 0
			}
			return float64(c.current.Load().Certificates[0].Leaf.NotAfter.Unix())
		})
}
