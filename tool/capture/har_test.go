package capture

import (
	"fmt"
	"strings"
	"testing"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
)

// TestRulesSeeTheExchangesOfHARFiles tries rules on entries as browsers write them.
func TestRulesSeeTheExchangesOfHARFiles(t *testing.T) {
	entry := func(version, rest string) string {
		return fmt.Sprintf(`{"startedDateTime":"2024-01-01T00:00:00Z","serverIPAddress":"[2001:db8::7]","request":{"method":"POST","url":"https://a.example:8443/one?x=1","httpVersion":%q,
			"headers":[{"name":"Host","value":"a.example"},{"name":":path","value":"/one?x=1"},{"name":"User-Agent","value":"UA"},{"name":"Content-Length","value":"999"}],"postData":{"text":"p=1&q=2"}},
			"response":{"status":201,"statusText":"Created","headers":[{"name":"Server","value":"nginx"},{"name":"Content-Encoding","value":"gzip"}],"content":%s}}`, version, rest)
	}
	text, large := `{"text":"some malware here"}`, `{"text":"`+strings.Repeat("a long text ", 4000)+`the end"}`
	for _, x := range []struct {
		version, content, rule string
		want                   bool
	}{
		{"HTTP/1.1", text, `alert http1 any any -> any any (http.uri; content:"/one?x=1"; bsize:8; http.host; content:"a.example"; http.header_names; content:!"|3a|path"; sid:1;)`, true},
		{"HTTP/1.1", text, `alert http2 any any -> any any (http.uri; content:"/one"; sid:1;)`, false},
		{"h2", text, `alert http2 any any -> any any (http.uri; content:"/one?x=1"; bsize:8; http.host; content:"a.example"; startswith; sid:1;)`, true},
		{"HTTP/2.0", text, `alert http any any -> any any (http.user_agent; content:"UA"; bsize:2; http.request_body; content:"q=2"; endswith; sid:1;)`, true},
		{"http/2", text, `alert http any any -> any any (http.protocol; content:"HTTP/2"; sid:1;)`, true},
		{"h3", text, `alert http2 any any => any any (http.uri; content:"/one"; http.stat_code; content:"201"; file.data; content:"malware"; sid:1;)`, true},
		{"h2", large, `alert http any any -> any any (file.data; content:"the end"; endswith; sid:1;)`, true},
		{"h2", `{"text":"TVqQ","encoding":"base64"}`, `alert http any any -> any any (flow:to_client; file.data; content:"MZ|90|"; bsize:3; sid:1;)`, true},
		{"h2", text, `alert http any any -> 2001:db8::7 8443 (http.method; content:"POST"; sid:1;)`, true},
		{"HTTP/1.1", text, `alert http any any -> any 8443 (http.method; content:"POST"; sid:1;)`, true},
		{"HTTP/1.1", text, `alert http any any -> any 80 (http.method; content:"POST"; sid:1;)`, false},
		{"h2", `{}`, `alert http any any -> any any (http.server; content:"nginx"; http.stat_code; content:"201"; sid:1;)`, true},
	} {
		rules, mistakes, err := rule.NewParser().Read("x", strings.NewReader(x.rule))
		if err != nil || len(mistakes) > 0 {
			t.Fatalf("reading the rule %s: %v, mistakes %v", x.rule, err, mistakes)
		}
		e, mistakes, err := engine.New(engine.Config{Rules: rules, Packets: true})
		if err != nil || len(mistakes) > 0 {
			t.Fatalf("compiling the rule %s: %v, mistakes %v", x.rule, err, mistakes)
		}
		run := New(Config{}, e, NewOutput(nil, nil))
		if err := run.Messages([]byte(`{"log":{"entries":[` + entry(x.version, x.content) + `]}}`)); err != nil {
			t.Fatal(err)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		if got := e.Counters().Alerts.Load() > 0; got != x.want {
			t.Errorf("version %s, rule %s: alert %v, want %v", x.version, x.rule, got, x.want)
		}
	}
}
