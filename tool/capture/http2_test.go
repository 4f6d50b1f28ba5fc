package capture

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// block encodes fields, which are given as "name=value" and separated by blanks.
func block(fields string) string {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for f := range strings.FieldsSeq(fields) {
		i := strings.LastIndexByte(f[:strings.IndexByte(f[1:]+"=", '=')+1], '=')
		if i < 0 {
			i = strings.IndexByte(f[1:], '=') + 1
		}
		_ = e.WriteField(hpack.HeaderField{Name: f[:i], Value: f[i+1:]})
	}
	return b.String()
}

// frameOf makes a frame of HTTP/2.
func frameOf(kind, flags byte, stream byte, body string) string {
	n := len(body)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, stream}) + body
}

const asking = ":method=GET :scheme=http :authority=a.example :path=/x"

// Streams and frames that are not as they should be have events.
func TestEventsOfHTTP2(t *testing.T) {
	good := preface + frameOf(4, 0, 0, "\x00\x04\x00\x00\xff\xff") + frameOf(1, 5, 1, block(asking))
	for name, x := range map[string]struct{ event, text string }{
		"an unknown frame":           {"invalid_frame_header", good + frameOf(77, 0, 0, "x")},
		"a short reset":              {"invalid_frame_length", good + frameOf(3, 0, 1, "abc")},
		"a long priority":            {"invalid_frame_length", good + frameOf(2, 0, 1, "abcdef")},
		"a short window":             {"invalid_frame_length", good + frameOf(8, 0, 1, "")},
		"a short farewell":           {"invalid_frame_length", good + frameOf(7, 0, 0, "abcdefg")},
		"settings that are cut":      {"invalid_frame_data", preface + frameOf(4, 0, 0, "\x00\x04\x00")},
		"more padding than there is": {"invalid_frame_data", preface + frameOf(1, 13, 1, "\x7fabc")},
		"data about the connection":  {"data_stream_zero", good + frameOf(0, 0, 0, "x")},
		"fields that cannot be read": {"invalid_header", preface + frameOf(1, 5, 1, "\xff\xff\x00")},
		"a field without its end":    {"invalid_header", preface + frameOf(1, 5, 1, "\x40\x0aabc")},
		"a person in the host":       {"userinfo_in_uri", preface + frameOf(1, 5, 1, block(strings.Replace(asking, "=a.", "=me@a.", 1)))},
		"two hosts":                  {"authority_host_mismatch", preface + frameOf(1, 5, 1, block(asking+" host=b.example"))},
		"a host twice, the same":     {"", preface + frameOf(1, 5, 1, block(asking+" host=A.example"))},
		"nothing odd":                {"", good},
		"a reset":                    {"", good + frameOf(3, 0, 1, "\x00\x00\x00\x08")},
		"an empty acknowledgement":   {"", good + frameOf(4, 1, 0, "")},
		"padding":                    {"", preface + frameOf(1, 13, 1, "\x02"+block(asking)+"\x00\x00")},
	} {
		for _, size := range []int{5, 1460} {
			r := newRecording()
			r.tcp(40000, 80, size, client(x.text))
			_, records := r.found(t, Config{}, `alert http2 any any -> any any (http.uri; content:"never"; sid:1;)`)
			var got []string
			for _, m := range records["anomaly"] {
				e, _ := field(m, "anomaly.event")
				got = append(got, strings.ToLower(e.(string)))
			}
			if want := strings.Fields(x.event); !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d has the events %v, want %v", name, size, got, want)
			}
			if x.event == "" {
				continue
			}
			sids, _ := r.found(t, Config{}, "alert http2 any any -> any any (app-layer-event:http2."+x.event+"; sid:1;)")
			if !slices.Equal(sids, []int{1}) {
				t.Errorf("%s in pieces of %d: no alert for %s", name, size, x.event)
			}
		}
	}
}

// Rules see names that are asked for over HTTPS.
func TestRulesSeeNamesInHTTP2(t *testing.T) {
	query := "\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05games\x07example\x00\x00\x01\x00\x01"
	post := func(kind, body string) string {
		return preface + frameOf(1, 4, 1, block(":method=POST :scheme=https :authority=d.example :path=/dns-query content-type="+kind)) + frameOf(0, 1, 1, body)
	}
	get := func(value string) string {
		return preface + frameOf(1, 5, 1, block(":method=GET :scheme=https :authority=d.example accept="+dnsMessage+" :path=/dns-query?dns="+value))
	}
	for name, x := range map[string]struct {
		text string
		want []int
	}{
		"posted":              {post(dnsMessage, query), []int{1, 2, 3, 4}},
		"posted as a file":    {post("application/octet-stream", query), []int{3}},
		"cut":                 {post(dnsMessage, query[:9]), []int{3, 4}},
		"empty":               {post(dnsMessage, ""), []int{3, 4}},
		"in the path":         {get(base64.RawURLEncoding.EncodeToString([]byte(query))), []int{1, 2, 3, 4}},
		"with padding":        {get(base64.URLEncoding.EncodeToString([]byte(query))), []int{1, 2, 3, 4}},
		"and something else":  {get(base64.RawURLEncoding.EncodeToString([]byte(query)) + "&x=1"), []int{1, 2, 3, 4}},
		"nothing in the path": {get(""), []int{3, 4}},
		"rubbish in the path": {get("!!!"), []int{3, 4}},
		"too much":            {post(dnsMessage, query) + strings.Repeat(frameOf(0, 0, 3, strings.Repeat("x", 1000)), 1), []int{1, 2, 3, 4}},
	} {
		r := newRecording()
		r.tcp(40000, 443, 1460, client(x.text))
		sids, _ := r.found(t, Config{}, `alert dns any any -> any any (dns.query; content:"games.example"; sid:1;)
alert doh2 any any -> any any (dns.query; content:"games.example"; sid:2;)
alert http2 any any -> any any (http.request_header; content:"d.example"; sid:3;)
alert doh2 any any -> any any (http.request_header; content:"d.example"; sid:4;)
alert dns any any -> any any (dns.query; content:"other.example"; sid:5;)`)
		if !slices.Equal(sids, x.want) {
			t.Errorf("%s: rules %v, want %v", name, sids, x.want)
		}
	}
	r := newRecording()
	r.tcp(40000, 443, 1460, client(preface+frameOf(1, 4, 1, block(":method=POST :path=/ content-type="+dnsMessage))+strings.Repeat(frameOf(0, 0, 1, strings.Repeat("x", 16000)), 5)+frameOf(0, 1, 1, "")))
	if sids, _ := r.found(t, Config{}, "alert http2 any any -> any any (app-layer-event:http2.dns_request_too_long; sid:1;)"); !slices.Equal(sids, []int{1}) {
		t.Error("a message of 80,000 bytes is not too long")
	}
}

// Records of streams have settings, errors and fields.
func TestRecordsOfHTTP2(t *testing.T) {
	r := newRecording()
	r.tcp(40000, 80, 1460, client(preface+frameOf(4, 0, 0, "\x00\x04\x00\x00\xff\xff")+frameOf(1, 37, 1, "\x00\x00\x00\x00\x0f"+block(asking))+frameOf(7, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x01")),
		server(frameOf(4, 0, 0, "\x00\x03\x00\x00\x00\x64")+frameOf(3, 0, 1, "\x00\x00\x00\x08")))
	_, records := r.found(t, Config{}, `alert http2 any any -> any any (http.uri; content:"never"; sid:1;)`)
	for path, want := range map[string]any{
		"http.http2.request.settings[0].settings_id":     "SETTINGSINITIALWINDOWSIZE",
		"http.http2.request.settings[0].settings_value":  65535.0,
		"http.http2.response.settings[0].settings_value": 100.0,
		"http.http2.request.error_code":                  "PROTOCOLERROR",
		"http.http2.response.error_code":                 "CANCEL",
		"http.http2.request.priority":                    15.0,
		"http.request_headers[0].name":                   ":method",
		"http.request_headers[3].value":                  "/x",
		"http.url":                                       "/x",
	} {
		found := false
		for _, m := range records["http"] {
			got, ok := field(m, path)
			found = found || ok && got == want
		}
		if !found {
			t.Errorf("no record has %s = %v", path, want)
		}
	}
}
