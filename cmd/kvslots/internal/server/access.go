package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/metrics"
)

// accessMetrics are those of the files of tokens and certificates.
func accessMetrics(s *settings.Serve) []prometheus.Collector {
	return []prometheus.Collector{
		metrics.Gauge("kvslots_file_age_seconds", "Longest time since the files of a token or certificate were last read, and had the content that is in force; 0 without files.", nil,
			func() (age float64) {
				for _, files := range s.Followed {
					age = max(age, files.Age().Seconds())
				}
				return age
			}),
		metrics.Gauge("kvslots_certificate_expiry_timestamp_seconds", "When the certificate of HTTP ends that is in force, in seconds since 1970; 0 without TLS.", nil,
			func() float64 {
				if certificate := s.Certificate(); certificate != nil {
					return float64(certificate.NotAfter.Unix())
				}
				return 0
			}),
	}
}
