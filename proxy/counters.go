package proxy

import (
	"sync/atomic"

	"shuultuur/lib/metric"
)

// Counters of a Proxy.
const (
	connections = iota
	connectionsFull
	connectionsClientFull
	tlsRefused
	proxyProtocolRefused
	requests
	requestsAbandoned
	requestsEnded
	overload
	malformed
	loops
	tunnels
	upgrades
	upstreamFailed
	tlsDecrypted
	tlsCertificateRefused
	tlsUnreadable
	tlsECH
	transparentConnections
	transparentMisdirected
	panics
	connectionsOpen // current number, as for the following
	tunnelsOpen
	requestsAllowed
	requestsQueued
)

var descs = [...]*metric.Desc{
	connections:            desc("connections_total", "Client connections accepted."),
	connectionsFull:        desc("connections_full_total", "Client connections refused because the listener had too many."),
	connectionsClientFull:  desc("connections_client_full_total", "Client connections refused because one client had too many."),
	tlsRefused:             desc("tls_refused_total", "Connections closed because they spoke TLS and no certificate is set up."),
	proxyProtocolRefused:   desc("proxy_protocol_refused_total", "Connections closed because of a bad PROXY protocol header."),
	requests:               desc("requests_total", "Requests read."),
	requestsAbandoned:      desc("requests_abandoned_total", "Requests that ended because their client had gone."),
	requestsEnded:          desc("requests_ended_total", "Requests and tunnels that were cut while they went on, because of a schedule, a quota or a change."),
	overload:               desc("overload_total", "Requests and connections answered with 503."),
	malformed:              desc("malformed_total", "Messages refused as malformed, request smuggling among them."),
	loops:                  desc("loops_total", "Requests refused because they had passed through this gateway before."),
	tunnels:                desc("tunnels_total", "Tunnels opened."),
	upgrades:               desc("upgrades_total", "Connections upgraded (WebSocket)."),
	upstreamFailed:         desc("upstream_failed_total", "Requests without a valid answer from upstream."),
	tlsDecrypted:           desc("tls_decrypted_total", "TLS connections that were decrypted."),
	tlsUnreadable:          desc("tls_undecrypted_total", "TLS connections that cannot be decrypted: the client speaks another protocol than HTTP, or only old TLS."),
	tlsCertificateRefused:  desc("tls_certificate_refused_total", "TLS handshakes that a client ended because of our certificate."),
	tlsECH:                 desc("tls_ech_total", "TLS hellos that carried encrypted_client_hello, true or noise."),
	transparentConnections: desc("transparent_connections_total", "Connections that a firewall redirected here."),
	transparentMisdirected: desc("transparent_misdirected_total", "Requests and hellos that name a host which does not have the address they went to."),
	panics:                 desc("panics_total", "Panics caught while serving a connection."),
	connectionsOpen:        desc("connections", "Client connections open."),
	tunnelsOpen:            desc("tunnels", "Tunnels open."),
	requestsAllowed:        desc("requests_allowed", "Requests that may be in progress at once: fewer while the processors do not keep up."),
	requestsQueued:         desc("requests_queued", "Requests waiting for their turn."),
}

func desc(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_"+name, help)
}

// counters are the counters of a proxy. They only grow, except those of current numbers.
type counters [tunnelsOpen + 1]atomic.Int64

func (c *counters) add(what int) { c[what].Add(1) }
