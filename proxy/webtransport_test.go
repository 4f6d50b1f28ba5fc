package proxy

import (
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"shuultuur/filter"
)

// TestOtherProtocolsInStreamsAreRefused: WebTransport and the like carry datagrams and streams that nobody
// could read, so they need a rule that allows the host.
func TestOtherProtocolsInStreamsAreRefused(t *testing.T) {
	w := newWorld(t)
	host := w.origin2(t, true, func(http.ResponseWriter, *http.Request) { t.Error("the origin got a request") })
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(*filter.Transaction, filter.Stage) filter.Verdict { return filter.Verdict{} }}})
	f := r.frames(w, host)
	for i, protocol := range []string{"webtransport", "connect-udp", "connect-ip", "x"} {
		id := uint32(2*i + 1)
		f.ask(id, false, ":method", "CONNECT", ":protocol", protocol, ":scheme", "https", ":authority", host, ":path", "/x")
		switch h := f.next(id).(type) {
		case *http2.MetaHeadersFrame:
			if s := h.PseudoValue("status"); s < "400" {
				t.Errorf("%s: status %s, want a refusal", protocol, s)
			}
		case *http2.RSTStreamFrame:
		default:
			t.Errorf("%s: got %v, want a refusal", protocol, h)
		}
	}
}
