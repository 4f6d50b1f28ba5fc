//go:build !small

package signature

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/lib/suricata/traffic"
)

// conversation is a request and a response of a test.
type conversation struct{ request, body, response, page string }

// judge judges an exchange and returns the categories of the findings.
func judge(t *testing.T, c *Check, f *filter.Flow, id string, x conversation) []string {
	t.Helper()
	read := func(s string) *message.Reader {
		return message.NewReader(strings.NewReader(strings.ReplaceAll(s, "\n", "\r\n")), 4096, 65536)
	}
	tr := &filter.Transaction{ID: id, Flow: f, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "example.com", Port: 80, Last: filter.ResponseBody}
	q := &message.Request{}
	if err := read(x.request).ReadRequest(q); err != nil {
		t.Fatal(err)
	}
	tr.Request = q
	var found []filter.Finding
	find := func(s filter.Stage) {
		var err error
		if found, err = c.Find(context.Background(), tr, s, found); err != nil {
			t.Fatal(err)
		}
	}
	find(filter.Request)
	if x.body != "" {
		var h content.Head
		tr.Upload = &content.Body{}
		tr.Upload.Reset(&h, content.Limits{})
		tr.Upload.Append([]byte(x.body))
		tr.Upload.Finish()
		find(filter.RequestBody)
	}
	if x.response != "" {
		s := &message.Response{}
		if err := read(x.response).ReadResponse(s, q.Method); err != nil {
			t.Fatal(err)
		}
		tr.Response = s
		find(filter.Response)
		tr.Body = &content.Body{}
		tr.Body.Reset(tr.Content(), content.Limits{})
		tr.Body.Append([]byte(x.page))
		tr.Body.Finish()
		find(filter.ResponseBody)
	}
	var names []string
	for _, k := range found {
		names = append(names, k.Category)
	}
	return names
}

func newCheck(t *testing.T, rules string) *Check {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.rules")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Rules: []setting.File{setting.File(file)}}, Parts{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Mistakes() {
		t.Error(m)
	}
	return c
}

func has(names []string, want string) bool {
	for _, n := range names {
		if n == want {
			return true
		}
	}
	return false
}

func TestRulesSeeEveryStageOfAnExchange(t *testing.T) {
	const get = "GET /a/./b%41.php?x=1 HTTP/1.1\nHost: Example.com\nUser-Agent: curl/8\nCookie: k=v\n\n"
	const ok = "HTTP/1.1 200 OK\nServer: nginx\nContent-Length: 11\n\n"
	x := conversation{request: get, response: ok, page: "hello world"}
	post := conversation{request: "POST /u HTTP/1.1\nHost: example.com\nContent-Length: 9\n\n", body: "user=root", response: ok, page: "hello world"}
	for name, tc := range map[string]struct {
		rule string
		in   conversation
		want bool
	}{
		"uri":                 {`alert http any any -> any any (http.uri; content:"/a/bA.php"; startswith; sid:1;)`, x, true},
		"raw uri":             {`alert http any any -> any any (http.uri.raw; content:"%41"; sid:1;)`, x, true},
		"host":                {`alert http any any -> any any (http.host; content:"example.com"; bsize:11; sid:1;)`, x, true},
		"names":               {`alert http any any -> any any (http.header_names; content:"|0d 0a|Host|0d 0a|User-Agent|0d 0a|"; startswith; sid:1;)`, x, true},
		"header, no cookie":   {`alert http any any -> any any (http.header; content:!"Cookie"; http.method; content:"GET"; sid:1;)`, x, true},
		"absent":              {`alert http any any -> any any (http.method; content:"GET"; http.referer; absent; sid:1;)`, x, true},
		"page":                {`alert http any any -> any any (flow:established,to_client; file.data; content:"hello"; content:"world"; distance:1; within:5; sid:1;)`, x, true},
		"page, too far":       {`alert http any any -> any any (flow:established,to_client; file.data; content:"hello"; content:"world"; distance:2; sid:1;)`, x, false},
		"status":              {`alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; http.server; content:"nginx"; sid:1;)`, x, true},
		"upload":              {`alert http any any -> any any (http.request_body; content:"user="; pcre:"/^root$/R"; sid:1;)`, post, true},
		"look-behind":         {`alert http any any -> any any (http.uri; content:"php"; pcre:"/(?<=A)\.php/"; sid:1;)`, x, true},
		"negated":             {`alert http any any -> any any (http.uri; content:"php"; content:!"A.php"; sid:1;)`, x, false},
		"stream":              {`alert tcp any any -> any any (content:"GET /a/./b"; sid:1;)`, x, true},
		"stream of an answer": {`alert tcp any any -> any any (flow:to_client; content:"nginx"; content:"hello"; distance:0; sid:1;)`, x, true},
		"exchange":            {`alert http any any => any any (http.uri; content:"php"; http.stat_code; content:"200"; sid:1;)`, x, true},
		"odd credentials":     {`alert http any any -> any any (app-layer-event:http.request_auth_unrecognized; sid:1;)`, conversation{request: "GET / HTTP/1.1\nHost: a.example\nAuthorization: Hawk id=1\n\n"}, true},
		"plain credentials":   {`alert http any any -> any any (app-layer-event:http.request_auth_unrecognized; sid:1;)`, conversation{request: "GET / HTTP/1.1\nHost: a.example\nAuthorization: Basic YTpi\n\n"}, false},
		"two hosts":           {`alert http any any -> any any (app-layer-event:http.host_header_ambiguous; sid:1;)`, conversation{request: "GET http://b.example/x?u=http://c HTTP/1.1\nHost: a.example\n\n"}, true},
		"one host":            {`alert http any any -> any any (app-layer-event:http.host_header_ambiguous; sid:1;)`, conversation{request: "GET http://A.example:80/ HTTP/1.1\nHost: a.example\n\n"}, false},
		"a field twice":       {`alert http any any -> any any (flow:to_client; app-layer-event:http.response_header_repetition; sid:1;)`, conversation{request: get, response: "HTTP/1.1 200 OK\nX-A: 1\nx-a: 2\nContent-Length: 2\n\n", page: "ok"}, true},
		"no such part":        {`alert http any any -> any any (flow:to_client; app-layer-event:http.range_invalid; sid:1;)`, conversation{request: get, response: "HTTP/1.1 206 OK\nContent-Range: bytes 9-3/20\nContent-Length: 2\n\n", page: "ok"}, true},
		"a part":              {`alert http any any -> any any (flow:to_client; app-layer-event:http.range_invalid; sid:1;)`, conversation{request: get, response: "HTTP/1.1 206 OK\nContent-Range: bytes 3-4/20\nContent-Length: 2\n\n", page: "ok"}, false},
		"many codings":        {`alert http any any -> any any (flow:to_client; app-layer-event:http.too_many_encoding_layers; sid:1;)`, conversation{request: get, response: "HTTP/1.1 200 OK\nContent-Encoding: gzip, gzip, gzip\nContent-Length: 2\n\n", page: "ok"}, true},
		"odd coding":          {`alert http any any -> any any (flow:to_client; app-layer-event:http.abnormal_ce_header; sid:1;)`, conversation{request: get, response: "HTTP/1.1 200 OK\nContent-Encoding: pack200\nContent-Length: 2\n\n", page: "ok"}, true},
		"broken coding":       {`alert http any any -> any any (flow:to_client; app-layer-event:http.gzip_decompression_failed; sid:1;)`, conversation{request: get, response: "HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 14\n\n", page: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x07\x07\x07\x07"}, true},
		"no event":            {`alert http any any -> any any (app-layer-event:http.gzip_decompression_failed; sid:1;)`, x, false},
		"clients ask":         {`alert http $HOME_NET any -> $EXTERNAL_NET any (http.uri; content:"php"; sid:1;)`, x, true},
		"nobody asks us":      {`alert http $EXTERNAL_NET any -> $HOME_NET any (http.uri; content:"php"; sid:1;)`, x, false},
		"transform":           {`alert http any any -> any any (http.user_agent; to_uppercase; content:"CURL"; sid:1;)`, x, true},
		"legacy":              {`alert http any any -> any any (content:"/a/bA"; http_uri; content:"curl"; http_user_agent; sid:1;)`, x, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheck(t, tc.rule)
			for _, f := range []*filter.Flow{nil, {}} {
				if got := has(judge(t, c, f, "1", tc.in), "1"); got != tc.want {
					t.Errorf("rule 1 was found: %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestFlowBitsBelongToTheConnection(t *testing.T) {
	rules := `alert http any any -> any any (http.uri; content:"/set"; flowbits:set,a; flowbits:noalert; sid:1;)
alert http any any -> any any (http.uri; content:"/get"; flowbits:isset,a; sid:2; classtype:trojan-activity;)`
	c := newCheck(t, rules)
	set := conversation{request: "GET /set HTTP/1.1\nHost: a\n\n"}
	get := conversation{request: "GET /get HTTP/1.1\nHost: a\n\n"}
	f := &filter.Flow{}
	if got := judge(t, c, f, "1", set); len(got) > 0 {
		t.Errorf("the rule that sets the bit found %v", got)
	}
	if got := judge(t, c, &filter.Flow{}, "2", get); has(got, "2") {
		t.Error("the bit is set on another connection")
	}
	next := newCheck(t, rules) // as by a reload
	got := judge(t, next, f, "3", get)
	for _, want := range []string{"2", "trojan-activity", "priority-1"} {
		if !has(got, want) {
			t.Errorf("found %v, want also %s", got, want)
		}
	}
}

func TestARuleThatTakesTooLongTooOftenIsDisabled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.rules")
	slow := `alert http any any -> any any (flow:to_client; file.data; content:"a"; content:"a"; distance:0; content:"a"; distance:0; content:"b"; distance:0; sid:7;)`
	if err := os.WriteFile(file, []byte(slow+"\n"+`alert http any any -> any any (flow:to_client; file.data; content:"aaaa"; sid:8;)`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{0, 2} {
		c, err := New(Config{Rules: []setting.File{setting.File(file)}, DisableAfter: after}, Parts{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		x := conversation{request: "GET / HTTP/1.1\nHost: a\n\n", response: "HTTP/1.1 200 OK\nContent-Length: 500\n\n", page: strings.Repeat("a", 500)}
		for i := range 4 {
			got := judge(t, c, &filter.Flow{}, "1", x)
			if want := after == 0 || i < after; has(got, filter.Unread) != want || !has(got, "8") {
				t.Errorf("disable-after %d, message %d: found %v, given up should be %v", after, i, got, want)
			}
		}
		problems := strings.Join(c.Problems(), "")
		if n := c.Engine().Counters().Disabled.Load(); (n == 1) != (after > 0) || strings.Contains(problems, "(7)") != (after > 0) {
			t.Errorf("disable-after %d: %d rules are disabled, the problems are %q", after, n, problems)
		}
	}
	if _, err := New(Config{Rules: []setting.File{setting.File(file)}, DisableAfter: -1}, Parts{Now: time.Now}); err == nil {
		t.Error("New accepts a negative disable-after")
	}
}

func TestARuleThatTakesTooLongIsReported(t *testing.T) {
	c := newCheck(t, `alert http any any -> any any (flow:to_client; file.data; content:"a"; content:"a"; distance:0; content:"a"; distance:0; content:"b"; distance:0; sid:7;)`)
	x := conversation{request: "GET / HTTP/1.1\nHost: a\n\n", response: "HTTP/1.1 200 OK\nContent-Length: 500\n\n", page: strings.Repeat("a", 500)}
	got := judge(t, c, &filter.Flow{}, "1", x)
	if !has(got, filter.Unread) || has(got, "7") {
		t.Errorf("found %v, want %s and not rule 7", got, filter.Unread)
	}
	if n := c.Engine().Counters().OverRule.Load(); n != 1 {
		t.Errorf("the counter of rules over the limit is %d, want 1", n)
	}
}

// TestRulesInspectMalformedRequests: rules for malformed requests inspect heads that the
// proxy answers with 400.
func TestRulesInspectMalformedRequests(t *testing.T) {
	for name, x := range map[string]struct{ rule, head string }{
		"two lengths":  {`app-layer-event:http.duplicate_content_length_field_in_request; http.uri; content:"/x"`, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"},
		"two chunked":  {`app-layer-event:http.invalid_transfer_encoding_value_in_request; http.method; content:"POST"`, "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"},
		"no host":      {`app-layer-event:http.missing_host_header`, "GET / HTTP/1.1\r\n\r\n"},
		"no colon":     {`app-layer-event:http.request_field_missing_colon; http.header_names; content:"Host"`, "GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n"},
		"no protocol":  {`app-layer-event:http.request_line_incomplete`, "GET /\r\n\r\n"},
		"only a line":  {`http.request_line; content:"GET"`, "GET / HT"},
		"as a stream":  {`content:"|0d 0a|a: b|0d 0a|"; content:"GET"`, "GET / HTTP/1.1\r\na: b\r\n\r\n"},
		"a tab before": {`app-layer-event:http.method_delim_non_compliant`, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.rules")
			if err := os.WriteFile(file, []byte("alert http any any -> any any ("+x.rule+"; sid:7;)\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := New(Config{Rules: []setting.File{setting.File(file)}}, Parts{Now: time.Now})
			if err != nil || len(c.Mistakes()) > 0 {
				t.Fatal(err, c.Mistakes())
			}
			tr := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Flow: &filter.Flow{}}
			c.SeeRefused(tr, []byte(x.head))
			if !slices.ContainsFunc(tr.Findings, func(f filter.Finding) bool { return f.Category == "7" }) {
				t.Errorf("Refused found %v, want rule 7", tr.Findings)
			}
		})
	}
}

// TestRulesInspectDNSMessagesOtherThanQueries has messages that the name server answers with
// FORMERR or NOTIMP, or that announce a change of a zone.
func TestRulesInspectDNSMessagesOtherThanQueries(t *testing.T) {
	const question = "\x01x\x04test\x00\x00\x06\x00\x01"
	for name, x := range map[string]struct{ rule, message string }{
		"notify":              {`dns.opcode:4; dns.query; content:"x.test"; bsize:6`, "\x00\x01\x20\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question},
		"update":              {`dns.opcode:5; dns.queries.rrname; content:"x.test"`, "\x00\x01\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question},
		"a bad opcode":        {`app-layer-event:dns.invalid_opcode`, "\x00\x01\x78\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"a cut question":      {`app-layer-event:dns.malformed_data`, "\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3fabc"},
		"a record in vain":    {`app-layer-event:dns.malformed_data; dns.query; content:"x.test"`, "\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01" + question},
		"two questions":       {`dns.query; content:"x.test"; dns.query; content:"y"; bsize:1`, "\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00" + question + "\x01y\x00\x00\x01\x00\x01"},
		"an answer inside":    {`dns.answers.rrname; content:"x.test"`, "\x00\x01\x20\x00\x00\x01\x00\x01\x00\x00\x00\x00" + question + "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04abcd"},
		"no header":           {`app-layer-event:dns.malformed_data`, "\x00\x01"},
		"a pointer to itself": {`app-layer-event:dns.malformed_data`, "\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.rules")
			if err := os.WriteFile(file, []byte("alert dns any any -> any any ("+x.rule+"; sid:7;)\nalert http any any -> any any (http.method; content:\"GET\"; sid:8;)\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := New(Config{Rules: []setting.File{setting.File(file)}}, Parts{Now: time.Now})
			if err != nil || len(c.Mistakes()) > 0 {
				t.Fatal(err, c.Mistakes())
			}
			tr := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Proto: filter.DNS}
			c.SeeRefused(tr, []byte(x.message))
			if !slices.ContainsFunc(tr.Findings, func(f filter.Finding) bool { return f.Category == "7" && f.Evidence != "" }) {
				t.Errorf("Refused found %v, want rule 7 with evidence", tr.Findings)
			}
		})
	}
}

// FuzzRefusedDNS inspects arbitrary bytes as a DNS message.
func FuzzRefusedDNS(f *testing.F) {
	f.Add([]byte("\x00\x01\x20\x00\x00\x01\x00\x01\x00\x00\x00\x00\x01x\x00\x00\x06\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04abcd"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m := &traffic.DNSMessage{}
		m.Read(msg, nil)
		for _, list := range [][]traffic.DNSName{m.Queries, m.Answers, m.Authorities, m.Additionals} {
			for _, n := range list {
				if len(n.Name) > traffic.MaxDNSName {
					t.Fatalf("a name of %d bytes was kept", len(n.Name))
				}
			}
		}
	})
}

// FuzzRefused inspects arbitrary bytes as a head.
func FuzzRefused(f *testing.F) {
	f.Add([]byte("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte(" CONNECT [:1 HTTP\n:\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		m := &exchange{}
		m.setMalformed(head)
	})
}

// TestATransformThatTakesTooLongIsReported has an expression of pcrexform that backtracks
// without end.
func TestATransformThatTakesTooLongIsReported(t *testing.T) {
	c := newCheck(t, `alert http any any -> any any (http.uri; pcrexform:"^/(?=((a+)+)+$)(a)"; content:"a"; bsize:1; sid:1;)`)
	for uri, want := range map[string]bool{"/aaaa": false, "/" + strings.Repeat("a", 60) + "!": true} {
		got := judge(t, c, &filter.Flow{}, uri, conversation{request: "GET " + uri + " HTTP/1.1\nHost: example.com\n\n"})
		if slices.Contains(got, filter.Unread) != want {
			t.Errorf("%s: found %v, want a finding that it was given up: %v", uri, got, want)
		}
	}
}

// TestFieldsSeenBeforeGiveTheSameFindings sends requests again and again: what the engine keeps
// about their fields must not apply to other fields, targets or paths.
func TestFieldsSeenBeforeGiveTheSameFindings(t *testing.T) {
	c := newCheck(t, `alert http any any -> any any (msg:"agent"; http.user_agent; content:"evil"; sid:1;)
alert http any any -> any any (msg:"host"; http.host; content:"bad.example"; sid:2;)
alert http any any -> any any (msg:"path"; http.uri; content:"/bad"; sid:3;)
alert http any any -> any any (msg:"field and path"; http.header; content:"X-Odd: yes"; http.uri; content:"/odd"; sid:4;)
alert http any any -> any any (msg:"transformed"; http.header; to_uppercase; content:"X-UP: A"; sid:5;)
`)
	for range 3 {
		for _, tc := range []struct {
			request string
			want    []string
		}{
			{"GET / HTTP/1.1\nHost: a.example\nUser-Agent: good\n\n", nil},
			{"GET / HTTP/1.1\nHost: a.example\nUser-Agent: evil\n\n", []string{"1"}},
			{"GET /bad HTTP/1.1\nHost: a.example\nUser-Agent: evil\n\n", []string{"1", "3"}},
			{"GET http://bad.example/ HTTP/1.1\nHost: a.example\nUser-Agent: good\n\n", []string{"2"}},
			{"GET http://bad.example/bad HTTP/1.1\nHost: a.example\nUser-Agent: good\n\n", []string{"2", "3"}},
			{"GET http://a.example/ HTTP/1.1\nHost: bad.example\nUser-Agent: good\n\n", nil},
			{"GET / HTTP/1.1\nHost: a.example\nX-Odd: yes\n\n", nil},
			{"GET /odd HTTP/1.1\nHost: a.example\nX-Odd: yes\n\n", []string{"4"}},
			{"GET /odd HTTP/1.1\nHost: a.example\nX-Odd: no\nx-up: a\n\n", []string{"5"}},
		} {
			var sids []string
			for _, name := range judge(t, c, &filter.Flow{}, "1", conversation{request: tc.request}) {
				if name[0] >= '0' && name[0] <= '9' {
					sids = append(sids, name)
				}
			}
			slices.Sort(sids)
			if !slices.Equal(sids, tc.want) {
				t.Errorf("%q: rules %v match, want %v", tc.request, sids, tc.want)
			}
		}
	}
}

// TestAConnectionForgetsExchangesThatAreOver sends many exchanges over one connection: rules
// inspect each once, also when it is judged again, and the connection keeps none of them.
func TestAConnectionForgetsExchangesThatAreOver(t *testing.T) {
	c := newCheck(t, `alert http any any -> any any (msg:"page"; file.data; content:"bad"; sid:1;)`)
	f := &filter.Flow{}
	x := conversation{request: "GET / HTTP/1.1\nHost: a.example\n\n", response: "HTTP/1.1 200 OK\nContent-Length: 3\n\n", page: "bad"}
	for i := range 1000 {
		id := strconv.Itoa(i)
		if got := judge(t, c, f, id, x); !slices.Contains(got, "1") {
			t.Fatalf("exchange %d has findings %q, want rule 1 among them", i, got)
		}
		for _, again := range []int{i, i - 1, i - 20} {
			if got := judge(t, c, f, strconv.Itoa(again), x); again >= 0 && len(got) > 0 {
				t.Fatalf("after exchange %d, exchange %d has findings again: %q", i, again, got)
			}
		}
	}
	f.Update(flowKey{}, func(old any) any {
		if k := old.(*flow); len(k.open) > 0 || len(k.over) > overBytes+len("\x001000") {
			t.Errorf("the connection keeps %d exchanges and %d bytes of identifiers", len(k.open), len(k.over))
		}
		return old
	})
}
