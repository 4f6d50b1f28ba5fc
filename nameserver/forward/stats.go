package forward

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// proxyName is the label of that name, as CoreDNS's plugin forward sets it.
const proxyName = "forward"

// stats are the counts of one upstream.
type stats struct {
	requests, errors, timeouts atomic.Int64
	full                       atomic.Int64 // refused: too many in flight
	forged                     atomic.Int64 // datagrams that answer nothing asked
	malformed                  atomic.Int64
	truncated                  atomic.Int64 // asked again over TCP
	caseless                   atomic.Int64 // answers whose case differs, asked again over TCP
	plain                      atomic.Int64 // asked again without EDNS
	dials, reused              atomic.Int64
	probes, probeFailures      atomic.Int64

	seconds *prometheus.HistogramVec // by proxy_name, to, rcode
	to      string
}

// names of the rcodes a server may send; RFC 6895.
var rcodes = [...]string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}

func rcodeName(r uint16) string {
	switch {
	case int(r) < len(rcodes):
		return rcodes[r]
	case r == rcodeBadVers:
		return "BADVERS"
	}
	return strconv.Itoa(int(r))
}

// observe counts an answer.
func (s *stats) observe(rcode uint16, took time.Duration) {
	s.seconds.WithLabelValues(proxyName, s.to, rcodeName(min(rcode, 24))).Observe(took.Seconds())
}
