package metrics

import "github.com/prometheus/client_golang/prometheus"

// Space returns the metrics of the disk of an embedded server. measure is
// natsembed.Server.Space; it is called once for each scrape.
func Space(measure func() (store, free, disk uint64, err error)) prometheus.Collector {
	return spaceMetrics{measure}
}

type spaceMetrics struct {
	measure func() (store, free, disk uint64, err error)
}

var (
	storeBytes = metricDesc("kvslots_store_bytes", "Bytes that the entries of the embedded server's streams take.")
	diskFree   = metricDesc("kvslots_disk_free_bytes", "Bytes of the data directory's disk that the gateway may still use.")
	diskSize   = metricDesc("kvslots_disk_size_bytes", "Size of the data directory's disk, in bytes.")
)

func (spaceMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- storeBytes
	to <- diskFree
	to <- diskSize
}

func (c spaceMetrics) Collect(to chan<- prometheus.Metric) {
	store, free, disk, err := c.measure()
	if err != nil {
		return
	}
	to <- prometheus.MustNewConstMetric(storeBytes, prometheus.GaugeValue, float64(store))
	to <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	to <- prometheus.MustNewConstMetric(diskSize, prometheus.GaugeValue, float64(disk))
}
