package nameserver

import (
	miekg "github.com/miekg/dns"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/lib/metric"
)

func TestMetricsHaveCoreDNSNames(t *testing.T) {
	s := start(t, Config{}, nil)
	exchange(t, s, "udp", query("www.test.", miekg.TypeA))
	exchange(t, s, "udp", query("gone.test.", miekg.TypeTXT))
	exchange(t, s, "tcp", query("www.test.", 65280))
	w := httptest.NewRecorder()
	metric.Handler(s).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := w.Body.String()
	const server = `server="dns://127.0.0.1:0"` // as set
	for _, want := range []string{
		`coredns_dns_requests_total{family="1",proto="tcp",` + server + `,type="other",view="",zone="."} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",` + server + `,type="A",view="",zone="."} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",` + server + `,type="TXT",view="",zone="."} 1`,
		`coredns_dns_responses_total{plugin="",rcode="NOERROR",` + server + `,view="",zone="."} 2`,
		`coredns_dns_responses_total{plugin="",rcode="NXDOMAIN",` + server + `,view="",zone="."} 1`,
		`coredns_dns_request_duration_seconds_count{` + server + `,view="",zone="."} 3`,
		`coredns_dns_request_size_bytes_sum{proto="tcp",` + server + `,view="",zone="."} 26`,
		`coredns_dns_request_size_bytes_bucket{proto="udp",` + server + `,view="",zone=".",le="100"} 2`,
		`coredns_dns_response_size_bytes_count{proto="udp",` + server + `,view="",zone="."} 2`,
		`shuultuur_dns_drops_total{reason="queue-full"} 0`,
		`shuultuur_dns_queued 0`,
		`shuultuur_dns_workers_busy 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}
