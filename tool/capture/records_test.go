package capture

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// A cut connection, one without answers and one with more than was announced leave records too.
func TestRecordsOfExchangesThatEndEarly(t *testing.T) {
	const ask = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n"
	const named = "Content-Disposition: attachment; filename=x.txt\r\n"
	for name, x := range map[string]struct {
		say    []said
		kind   string
		number int
		field  string
		want   any
	}{
		"no answer":                   {[]said{client(ask)}, "http", 1, "http.url", "/a"},
		"two without answers":         {[]said{client(ask + strings.Replace(ask, "/a", "/b", 1))}, "http", 2, "http.url", "/b"},
		"one answer for two":          {[]said{client(ask + ask), server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}, "http", 2, "http.url", "/a"},
		"a request that is cut":       {[]said{client("GET /a HTTP/1.1\r\nHost: a.exam")}, "http", 1, "http.http_method", "GET"},
		"an answer that is cut":       {[]said{client(ask), server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")}, "http", 1, "http.status", 200.0},
		"a status of two":             {[]said{client(ask), server("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n")}, "http", 1, "http.status", 204.0},
		"only an answer":              {[]said{server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}, "anomaly", 1, "anomaly.event", "UNABLE_TO_MATCH_RESPONSE_TO_REQUEST"},
		"a body behind a status 204":  {[]said{client(ask), server("HTTP/1.1 204 No\r\n" + named + "\r\nabc")}, "fileinfo", 1, "fileinfo.filename", "x.txt"},
		"a body behind a status 304":  {[]said{client(ask), server("HTTP/1.1 304 No\r\n" + named + "\r\nabc")}, "fileinfo", 1, "fileinfo.size", 3.0},
		"a body behind a status 100":  {[]said{client(ask), server("HTTP/1.1 100 No\r\n" + named + "\r\nabc")}, "fileinfo", 1, "fileinfo.filename", "x.txt"},
		"digests of a file":           {[]said{client(ask), server("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")}, "fileinfo", 1, "fileinfo.md5", "900150983cd24fb0d6963f7d28e17f72"},
		"the longer digest of a file": {[]said{client(ask), server("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")}, "fileinfo", 1, "fileinfo.sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"},
	} {
		r := newRecording()
		r.tcp(40000, 80, 1460, x.say...)
		_, records := r.found(t, Config{}, `alert http any any -> any any (http.uri; content:"/never"; sid:1;)`)
		got := records[x.kind]
		if len(got) != x.number {
			t.Errorf("%s: %d records of the kind %s, want %d: %v", name, len(got), x.kind, x.number, got)
			continue
		}
		if v, _ := field(got[len(got)-1], x.field); v != x.want {
			t.Errorf("%s: %s is %v, want %v", name, x.field, v, x.want)
		}
	}
}

// Each packet that is dropped has a record, that of the rule or that of its connection.
func TestRecordsOfDroppedPackets(t *testing.T) {
	say := []said{client("GET /cat HTTP/1.1\r\nHost: a.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npurr")}
	for rules, want := range map[string]struct {
		drops   int // 0 for none
		reason  string
		verdict string // of the first alert
		reject  any
		action  any // of the connection
	}{
		`alert http any any -> any any (http.uri; content:"/cat"; sid:1;)`:       {0, "", "alert", nil, nil},
		`pass http any any -> any any (http.uri; content:"/cat"; alert; sid:1;)`: {0, "", "pass", nil, "pass"},
		`drop http any any -> any any (http.uri; content:"/cat"; sid:1;)`:        {7, "rules", "drop", nil, "drop"},
		`reject http any any -> any any (http.uri; content:"/cat"; sid:1;)`:      {7, "rules", "drop", "to_client", "drop"},
		`rejectdst http any any -> any any (http.uri; content:"/cat"; sid:1;)`:   {7, "rules", "drop", "to_server", "drop"},
		`rejectboth http any any -> any any (http.uri; content:"/cat"; sid:1;)`:  {7, "rules", "drop", "both", "drop"},
		`drop tcp any any -> any any (dsize:>10; flags:PA; sid:1;)`:              {2, "rules", "drop", nil, nil},
		`drop http any any -> any any (http.uri; content:"/dog"; sid:1;)`:        {0, "", "", nil, nil},
	} {
		r := newRecording()
		r.tcp(40000, 80, 1460, say...)
		_, records := r.found(t, Config{Prevent: true, Inline: true}, rules)
		if got := len(records["drop"]); got != want.drops {
			t.Errorf("%s: %d packets were dropped, want %d", rules, got, want.drops)
			continue
		}
		if want.drops > 0 {
			if got, _ := field(records["drop"][0], "drop.reason"); got != want.reason {
				t.Errorf("%s: the reason is %v, want %s", rules, got, want.reason)
			}
		}
		if want.drops > 2 {
			if got, _ := field(records["drop"][1], "drop.reason"); got != "flow drop" {
				t.Errorf("%s: the reason of the next packet is %v", rules, got)
			}
		}
		if want.verdict != "" {
			got, _ := field(records["alert"][0], "verdict.action")
			reject, _ := field(records["alert"][0], "verdict.reject-target")
			if got != want.verdict || reject != want.reject {
				t.Errorf("%s: the verdict is %v %v, want %s %v", rules, got, reject, want.verdict, want.reject)
			}
		}
		if got, _ := field(records["flow"][0], "flow.action"); got != want.action {
			t.Errorf("%s: the connection's action is %v, want %v", rules, got, want.action)
		}
	}
}

// Records of names show who asked, who answered, and the data by type.
func TestRecordsOfNames(t *testing.T) {
	be := binary.BigEndian
	name := "\x05games\x07example\x00"
	record := func(kind uint16, data ...any) string {
		d := blocks(be, data...)
		return string(blocks(be, "\xc0\x0c", kind, uint16(1), uint32(60), uint16(len(d)), d))
	}
	for what, x := range map[string]struct {
		data  string // the answers, each of the type of its kind
		field string
		want  any
	}{
		"the answerer":        {record(1, "\xc0\x00\x02\x07"), "src_ip", "192.0.2.80"},
		"an address":          {record(1, "\xc0\x00\x02\x07"), "dns.answers[0].rdata", "192.0.2.7"},
		"a group":             {record(1, "\xc0\x00\x02\x07") + record(1, "\xc0\x00\x02\x08"), "dns.grouped.A[1]", "192.0.2.8"},
		"a long address":      {record(28, strings.Repeat("\x00", 15)+"\x01"), "dns.answers[0].rdata", "0000:0000:0000:0000:0000:0000:0000:0001"},
		"another name":        {record(5, "\x03www\xc0\x0c"), "dns.answers[0].rdata", "www.games.example"},
		"an exchanger":        {record(15, uint16(9), "\x02mx\xc0\x0c"), "dns.answers[0].rdata", "mx.games.example"},
		"a text":              {record(16, "\x03abc"), "dns.answers[0].rdata", "abc"},
		"an empty text":       {record(16, "\x00"), "dns.answers[0].rdata", ""},
		"an authority":        {record(6, "\x02ns\xc0\x0c", "\x04root\xc0\x0c", uint32(7), uint32(1), uint32(2), uint32(3), uint32(4)), "dns.answers[0].soa.serial", 7.0},
		"an authority's name": {record(6, "\x02ns\xc0\x0c", "\x04root\xc0\x0c", uint32(7), uint32(1), uint32(2), uint32(3), uint32(4)), "dns.answers[0].soa.mname", "ns.games.example"},
		"an authority cut":    {record(6, "\x02ns\xc0\x0c", "\x04root\xc0\x0c", uint32(7)), "dns.answers[0].soa", nil},
		"a service":           {record(33, uint16(1), uint16(2), uint16(443), "\x01s\xc0\x0c"), "dns.answers[0].srv.port", 443.0},
		"a fingerprint":       {record(44, "\x01\x02\xab\xcd"), "dns.answers[0].sshfp.fingerprint", "ab:cd"},
		"a fingerprint cut":   {record(44, "\x01"), "dns.answers[0].sshfp", nil},
		"no data":             {record(1), "dns.answers[0].rdata", nil},
		"something else":      {record(250, "abc"), "dns.grouped", nil},
	} {
		r := newRecording()
		count := uint16(1)
		if what == "a group" {
			count = 2
		}
		r.udp(false, 40100, 53, string(blocks(be, uint16(7), uint16(0x0100), uint16(1), uint16(0), uint16(0), uint16(0), name, uint16(1), uint16(1))))
		r.udp(true, 40100, 53, string(blocks(be, uint16(7), uint16(0x8180), uint16(1), count, uint16(0), uint16(0), name, uint16(1), uint16(1), x.data)))
		_, records := r.found(t, Config{}, `alert dns any any -> any any (dns.query; content:"never"; sid:1;)`)
		if len(records["dns"]) != 2 {
			t.Errorf("%s: %d records", what, len(records["dns"]))
			continue
		}
		if got, _ := field(records["dns"][1], x.field); fmt.Sprint(got) != fmt.Sprint(x.want) && !(x.want == "" && got == nil) {
			t.Errorf("%s: %s is %v, want %v", what, x.field, got, x.want)
		}
	}
}
