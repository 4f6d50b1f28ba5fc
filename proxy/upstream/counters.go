package upstream

import (
	"sync/atomic"

	"shuultuur/lib/metric"
)

// Counters of a Transport.
const (
	reused = iota
	dialed
	retried
	dialFailed
	private
	certFaults
	panics
	idle // current number
)

var descs = [...]*metric.Desc{
	reused:     metric.NewDesc("shuultuur_upstream_reused_total", "Requests sent over a reused connection."),
	dialed:     metric.NewDesc("shuultuur_upstream_connections_total", "Upstream connections made."),
	retried:    metric.NewDesc("shuultuur_upstream_retried_total", "Requests repeated because their connection was dead, or the origin had not processed them."),
	dialFailed: metric.NewDesc("shuultuur_upstream_dial_failed_total", "Failed upstream connections."),
	private:    metric.NewDesc("shuultuur_private_refused_total", "Requests refused because their address may not be reached."),
	certFaults: metric.NewDesc("shuultuur_tls_origin_faults_total", "TLS connections to origins whose certificate has a fault."),
	panics:     metric.NewDesc("shuultuur_upload_panics_total", "Panics caught while sending a request's body."),
	idle:       metric.NewDesc("shuultuur_upstream_idle", "Idle upstream connections."),
}

type counters [idle]atomic.Int64

func (c *counters) add(what int) { c[what].Add(1) }
