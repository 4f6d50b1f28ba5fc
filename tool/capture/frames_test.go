package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/capture/syntax"
)

// TestRulesSeeFrames tries each rule alone, however segments cut the messages.
func TestRulesSeeFrames(t *testing.T) {
	web := []said{client("GET /one HTTP/1.1\r\nHost: a.example\r\n\r\n"),
		server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"),
		client("POST /two HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc"),
		server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n")}
	record := func(kind, data string) string {
		return string([]byte{kind[0], 3, 3, byte(len(data) >> 8), byte(len(data))}) + data
	}
	alert := record("\x15", "\x01\x00")
	beat := record("\x18", "\x01\x00\x01x")
	sealed := []said{client(record("\x16", "\x01\x00\x00\x02\x03\x03") + alert), server(record("\x17", "sealed") + beat)}
	mails := []said{server("220 mail.example\r\n"), client("EHLO a.example\r\n"), server("250 fine\r\n"), client("MAIL FROM:<a@a.example>\r\n"), server("250 ok\r\n"),
		client("RCPT TO:<b@b.example>\r\n"), server("250 ok\r\n"), client("DATA\r\n"), server("354 go\r\n"), client("Subject: x\r\n\r\nhello\r\n.\r\n"), server("250 queued\r\n")}
	for _, x := range []struct {
		about string
		says  []said
		port  uint16
		rule  string
		want  bool
	}{
		{"a request", web, 80, `alert http any any -> any any (frame:http1.request; content:"GET /one"; startswith; sid:1;)`, true},
		{"a name without its protocol", web, 80, `alert http any any -> any any (frame:request; content:"POST"; startswith; content:"abc"; endswith; sid:1;)`, true},
		{"a quoted name", web, 80, `alert http1 any any -> any any (frame:"http1.request"; content:"/two"; sid:1;)`, true},
		{"both in one frame", web, 80, `alert http any any -> any any (frame:http1.request; content:"/one"; content:"/two"; sid:1;)`, false},
		{"a response with its chunks", web, 80, `alert http any any -> any any (frame:http1.response; content:"6|0d 0a|second|0d 0a|0"; sid:1;)`, true},
		{"the end of a response", web, 80, `alert http any any -> any any (frame:http1.response; content:"first"; endswith; sid:1;)`, true},
		{"what no frame lacks", web, 80, `alert http any any -> any any (frame:http1.response; content:!"200 OK"; sid:1;)`, false},
		{"what one frame lacks", web, 80, `alert http any any -> any any (frame:http1.request; content:!"POST"; sid:1;)`, true},
		{"a response in no request", web, 80, `alert http any any -> any any (frame:http1.request; content:"second"; sid:1;)`, false},
		{"a transform", web, 80, `alert http any any -> any any (frame:http1.request; to_lowercase; content:"get /one"; sid:1;)`, true},
		{"another protocol", web, 80, `alert tcp any any -> any any (frame:tls.pdu; content:"GET"; sid:1;)`, false},
		{"the protocol tcp", web, 80, `alert tcp any any -> any any (frame:http1.request; content:"GET"; sid:1;)`, true},
		{"a size", web, 80, `alert http any any -> any any (frame:http1.request; bsize:38; sid:1;)`, true},
		{"another size", web, 80, `alert http any any -> any any (frame:http1.request; bsize:<10; sid:1;)`, false},
		{"a truncated response", web[:1:1], 80, `alert http any any -> any any (frame:http1.response; content:"HTTP"; sid:1;)`, false},
		{"a cut body", []said{web[0], server("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nfirst")}, 80, `alert http any any -> any any (frame:http1.response; content:"first"; endswith; sid:1;)`, true},
		{"a record", sealed, 443, `alert tls any any -> any any (frame:tls.pdu; content:"|16 03 03|"; startswith; content:"|02 03 03|"; endswith; sid:1;)`, true},
		{"the head of a record", sealed, 443, `alert tls any any -> any any (frame:tls.hdr; content:"|17 03 03 00 06|"; bsize:5; sid:1;)`, true},
		{"the data of a record", sealed, 443, `alert tls any any -> any any (frame:data; content:"sealed"; startswith; endswith; sid:1;)`, true},
		{"no head in the data", sealed, 443, `alert tls any any -> any any (frame:tls.data; content:"|17 03 03|"; sid:1;)`, false},
		{"an alert", sealed, 443, `alert tls any any -> any any (frame:tls.alert_pdu; content:"|15|"; startswith; sid:1;)`, true},
		{"an alert of the server", sealed, 443, `alert tls any any -> any any (flow:to_client; frame:tls.alert_pdu; content:"|15|"; startswith; sid:1;)`, false},
		{"a heartbeat", sealed, 443, `alert tls any any -> any any (frame:tls.hb_pdu; content:"|18|"; startswith; sid:1;)`, true},
		{"a command", mails, 25, `alert smtp any any -> any any (frame:smtp.command_line; content:"MAIL FROM"; startswith; content:"example>"; endswith; sid:1;)`, true},
		{"no command", mails, 25, `alert smtp any any -> any any (frame:smtp.command_line; content:"hello"; sid:1;)`, false},
		{"a reply", mails, 25, `alert smtp any any -> any any (frame:smtp.response_line; content:"354"; startswith; sid:1;)`, true},
		{"a mail", mails, 25, `alert smtp any any -> any any (frame:smtp.data; content:"hello"; sid:1;)`, true},
		{"names", []said{client("\x00\x1b\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01")}, 53, `alert dns any any -> any any (frame:dns.pdu; content:"|12 34|"; startswith; sid:1;)`, true},
	} {
		for _, size := range []int{1, 7, 1400} {
			for _, inline := range []bool{false, true} {
				r := newRecording()
				r.tcp(40000, x.port, size, x.says...)
				sids, _ := r.found(t, Config{Inline: inline}, x.rule)
				if got := len(sids) > 0; got != x.want {
					t.Errorf("%s, segments of %d bytes, inline %v: an alert: %v, want %v", x.about, size, inline, got, x.want)
				}
			}
		}
	}
}

// TestFramesThatAreNotCut tells what cannot be a frame.
func TestFramesThatAreNotCut(t *testing.T) {
	for text, want := range map[string]string{
		`alert http any any -> any any (frame:http1.request; content:"a"; sid:1;)`:                        "",
		`alert http any any -> any any (frame:http1.body; content:"a"; sid:1;)`:                           "no frame",
		`alert smtp any any -> any any (frame:smtp.not_there; content:"a"; sid:1;)`:                       "no frame",
		`alert http any any -> any any (frame:http1.request; sid:1;)`:                                     "no matches",
		`alert http any any -> any any (frame:; content:"a"; sid:1;)`:                                     "name",
		`alert http any any -> any any (frame:http1.request; content:"a"; http.uri; content:"b"; sid:1;)`: "exclude each other",
		`alert http any any -> any any (flow:to_client; frame:http1.request; content:"a"; sid:1;)`:        "direction",
		`alert smb any any -> any any (frame:smb1.data; content:"a"; sid:1;)`:                             "inactive",
		`alert tcp any any -> any any (frame:nfs.pdu; content:"a"; sid:1;)`:                               "inactive",
	} {
		rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		switch {
		case len(mistakes) > 0:
			got = mistakes[0].Error()
		case slices.ContainsFunc(rules, func(r *rule.Rule) bool { return len(r.Foreign) > 0 }):
			got = "inactive"
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestBypassEndsTheInspection has a rule that ends it, and others before and after it.
func TestBypassEndsTheInspection(t *testing.T) {
	web := []said{client("GET /one HTTP/1.1\r\nHost: a.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"),
		client("GET /two HTTP/1.1\r\nHost: a.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")}
	for _, x := range []struct {
		about, rule string
		want        []int // with the rules 2 and 3, on both requests
	}{
		{"none", "", []int{2, 3}},
		{"at the first", `alert http any any -> any any (http.uri; content:"/one"; bypass; sid:1;)`, []int{1, 2}},
		{"at the second", `alert http any any -> any any (http.uri; content:"/two"; bypass; sid:1;)`, []int{1, 2, 3}},
		{"that does not match", `alert http any any -> any any (http.uri; content:"/three"; bypass; sid:1;)`, []int{2, 3}},
		{"without an alert", `alert http any any -> any any (http.uri; content:"/one"; bypass; noalert; sid:1;)`, []int{2}},
		{"on the first answer", `alert http any any -> any any (file.data; content:"first"; bypass; sid:1;)`, []int{1, 2}},
		{"on the last answer", `alert http any any -> any any (file.data; content:"second"; bypass; sid:1;)`, []int{1, 2, 3}},
		{"of a packet", `alert tcp any any -> any 80 (flags:S; bypass; sid:1;)`, []int{1}},
		{"of a name", `alert dns any any -> any any (dns.query; content:"a"; bypass; sid:1;)`, []int{2, 3}},
	} {
		r := newRecording()
		r.tcp(40000, 80, 1400, web...)
		sids, records := r.found(t, Config{}, x.rule+`
alert http any any -> any any (http.uri; content:"/one"; priority:1; sid:2;)
alert http any any -> any any (http.uri; content:"/two"; priority:1; sid:3;)
`)
		if !slices.Equal(sids, x.want) {
			t.Errorf("%s: the alerts %v, want %v", x.about, sids, x.want)
		}
		bypass, _ := field(records["flow"][0], "flow.bypass")
		if ended := bypass == "local"; ended != (!slices.Equal(x.want, []int{2, 3})) {
			t.Errorf("%s: the record of the connection says bypass %v", x.about, bypass)
		}
	}
}

// TestRecordsNameTheClientsOfProxies compares what xff makes of header fields.
func TestRecordsNameTheClientsOfProxies(t *testing.T) {
	for _, x := range []struct {
		value string
		how   Forwarded
		dir   rule.Direction
		want  string // source, destination and what stands beside them
	}{
		{"192.0.2.1, 192.0.2.2", Forwarded{Overwrite: true}, rule.ToServer, "192.0.2.2 b -"},
		{"192.0.2.1, 192.0.2.2", Forwarded{Overwrite: true, First: true}, rule.ToServer, "192.0.2.1 b -"},
		{"192.0.2.1, 192.0.2.2", Forwarded{Overwrite: true}, rule.ToClient, "a 192.0.2.2 -"},
		{"192.0.2.1, 192.0.2.2", Forwarded{}, rule.ToServer, "a b 192.0.2.2"},
		{"192.0.2.1, 192.0.2.2", Forwarded{First: true}, rule.ToClient, "a b 192.0.2.1"},
		{" 192.0.2.9 ", Forwarded{}, rule.ToServer, "a b 192.0.2.9"},
		{"2001:db8::1", Forwarded{}, rule.ToServer, "a b 2001:db8::1"},
		{"", Forwarded{Overwrite: true}, rule.ToServer, "a b -"},
		{"unknown", Forwarded{Overwrite: true}, rule.ToServer, "a b -"},
		{"192.0.2.1,", Forwarded{Overwrite: true}, rule.ToServer, "a b -"},
	} {
		x.how.Header = "X-Forwarded-For"
		e := &httpTx{}
		e.http.Sides[0].Headers = syntax.ParseFields([]byte("X-Forwarded-For: " + x.value + "\r\n"))
		m := map[string]any{"src_ip": "a", "dest_ip": "b", "xff": "-"}
		x.how.client(NewOutput(nil, nil), m, e, x.dir)
		if got := fmt.Sprint(m["src_ip"], " ", m["dest_ip"], " ", m["xff"]); got != x.want {
			t.Errorf("%q with %+v: %s, want %s", x.value, x.how, got, x.want)
		}
	}
}
