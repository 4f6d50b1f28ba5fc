package upstream

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// What a Transport counts.
const (
	reused = iota
	dialed
	retried
	dialFailed
	private
	certFaults
	panics
	idle // now
)

var descs = [...]*prometheus.Desc{
	reused:     prometheus.NewDesc("shuultuur_upstream_reused_total", "Requests sent over a kept connection.", nil, nil),
	dialed:     prometheus.NewDesc("shuultuur_upstream_connections_total", "Upstream connections made.", nil, nil),
	retried:    prometheus.NewDesc("shuultuur_upstream_retried_total", "Requests repeated because a kept connection was dead.", nil, nil),
	dialFailed: prometheus.NewDesc("shuultuur_upstream_dial_failed_total", "Upstream connections that could not be made.", nil, nil),
	private:    prometheus.NewDesc("shuultuur_private_refused_total", "Requests refused because their address may not be reached.", nil, nil),
	certFaults: prometheus.NewDesc("shuultuur_tls_origin_faults_total", "TLS connections to origins whose certificate has a fault.", nil, nil),
	panics:     prometheus.NewDesc("shuultuur_upload_panics_total", "Panics caught while sending a request's body.", nil, nil),
	idle:       prometheus.NewDesc("shuultuur_upstream_idle", "Upstream connections kept for the next request.", nil, nil),
}

type counters [idle]atomic.Int64

func (c *counters) add(what int) { c[what].Add(1) }
