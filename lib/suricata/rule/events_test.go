package rule

import (
	"strings"
	"testing"
)

// A rule for an event that nothing raises is inactive, and says so.
func TestRulesForEventsThatNobodyRaisesAreInactive(t *testing.T) {
	for option, active := range map[string]bool{
		"app-layer-event:http.missing_host_header":            true,
		"app-layer-event:http.double_encoded_uri":             true,
		"app-layer-event:http.request_line_invalid":           false,
		"app-layer-event:http2.invalid_frame_length":          true,
		"app-layer-event:http2.stream_id_reuse":               false,
		"app-layer-event:tls.invalid_record_type":             true,
		"app-layer-event:tls.heartbeat_message":               false,
		"app-layer-event:dns.malformed_data":                  true,
		"app-layer-event:dns.too_many_labels":                 false,
		"app-layer-event:smtp.tls_rejected":                   true,
		"app-layer-event:quic.failed_decrypt":                 true,
		"app-layer-event:modbus.invalid_length":               false,
		"app-layer-event:applayer_wrong_direction_first_data": false,
		"app-layer-event:file.INVALID_SWF_LENGTH":             false,
		"stream-event:est_syn_resend":                         true,
		"decode-event:ipv4.pkt_too_small":                     false,
	} {
		rules, mistakes, err := NewParser().Read("a.rules", strings.NewReader("alert ip any any -> any any ("+option+"; sid:1;)"))
		if err != nil || len(mistakes) > 0 {
			t.Fatal(option, err, mistakes)
		}
		if got := len(rules[0].Foreign) == 0; got != active {
			t.Errorf("%s is active: %v, want %v", option, got, active)
		}
	}
}
