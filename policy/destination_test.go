package policy

import (
	"errors"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// TestRulesKnowPortSchemeAndTunnels asks about requests and tunnels, at each stage until the rules
// have decided.
func TestRulesKnowPortSchemeAndTunnels(t *testing.T) {
	get := func(scheme string, port uint16) *filter.Transaction {
		return &filter.Transaction{Host: "a.example", Port: port, URL: scheme + "://a.example/", Last: filter.Request, Request: &message.Request{Method: "GET", Scheme: scheme, Path: []byte("/")}}
	}
	tunnel := func(port uint16, last filter.Stage, q *message.Request) *filter.Transaction {
		return &filter.Transaction{Proto: filter.TLS, Host: "a.example", Port: port, Last: last, Request: q}
	}
	connect := &message.Request{Method: "CONNECT"}
	for _, tt := range []struct {
		name string
		rule Rule
		t    *filter.Transaction
		want filter.Action
	}{
		{"port", Rule{Port: []string{"8080"}}, get("http", 8080), filter.Block},
		{"range", Rule{Port: []string{"1-79", "81-90"}}, get("http", 85), filter.Block},
		{"ends of a range", Rule{Port: []string{"81-90"}}, get("http", 90), filter.Block},
		{"outside of a range", Rule{Port: []string{"1-79", "81-90"}}, get("http", 80), filter.Pass},
		{"port of the scheme", Rule{Port: []string{"80"}}, get("http", 0), filter.Block},
		{"port of https", Rule{Port: []string{"443"}}, get("https", 0), filter.Block},
		{"port of a tunnel", Rule{Port: []string{"8443"}}, tunnel(8443, filter.Name, connect), filter.Block},
		{"other port of a tunnel", Rule{Port: []string{"443"}}, tunnel(8443, filter.Name, connect), filter.Pass},
		{"no port in a query", Rule{Port: []string{"1-65535"}}, &filter.Transaction{Proto: filter.DNS, Host: "a.example", Last: filter.Name}, filter.Pass},
		{"scheme", Rule{Scheme: []string{"HTTP"}}, get("http", 80), filter.Block},
		{"other scheme", Rule{Scheme: []string{"https", "ftp"}}, get("http", 80), filter.Pass},
		{"a tunnel has no scheme", Rule{Scheme: []string{"http", "https"}}, tunnel(443, filter.Name, connect), filter.Pass},
		{"tunnel", Rule{Method: []string{"CONNECT"}}, tunnel(443, filter.Name, connect), filter.Block},
		{"tunnel of which only the hello is known", Rule{Method: []string{"CONNECT"}}, tunnel(443, filter.Name, nil), filter.Block},
		{"tunnel that will be decrypted", Rule{Method: []string{"CONNECT"}}, tunnel(443, filter.ResponseBody, connect), filter.Block},
		{"request that is no tunnel", Rule{Method: []string{"CONNECT"}}, get("http", 80), filter.Pass},
		{"request in a tunnel", Rule{Method: []string{"CONNECT"}}, get("https", 443), filter.Pass},
		{"tunnel to a port", Rule{Method: []string{"CONNECT"}, Port: []string{"1-442", "444-65535"}}, tunnel(22, filter.Name, connect), filter.Block},
		{"tunnel with another condition", Rule{Method: []string{"CONNECT"}, Agent: []string{"curl"}}, tunnel(443, filter.Name, connect), filter.Pass},
		{"full URL", Rule{FullURL: []string{"^http://a\\.example/$"}}, get("http", 80), filter.Block},
		{"full URL, with case", Rule{FullURL: []string{"^HTTP://"}}, get("http", 80), filter.Pass},
		{"full URL, of a slash before the host", Rule{FullURL: []string{"/..example"}}, get("http", 80), filter.Block},
		{"one of some, none of others", Rule{FullURL: []string{"x", "^http:", "!^https:"}}, get("http", 80), filter.Block},
		{"one of those that must not match", Rule{FullURL: []string{"^http:", "!a"}}, get("http", 80), filter.Pass},
		{"only those that must not match", Rule{FullURL: []string{"!b"}}, get("http", 80), filter.Block},
		{"full URL of a tunnel", Rule{FullURL: []string{"^a\\.example:443$"}}, tunnel(443, filter.Name, connect), filter.Block},
		{"full URL of a request that a tunnel has not", Rule{FullURL: []string{"^https:"}}, tunnel(443, filter.Name, nil), filter.Pass},
		{"full URL of tunnels, for requests", Rule{FullURL: []string{"443"}, Method: []string{"GET"}}, tunnel(443, filter.Name, connect), filter.Pass},
		{"a query has none", Rule{FullURL: []string{"!b"}}, &filter.Transaction{Proto: filter.DNS, Host: "a.example", Last: filter.Name}, filter.Pass},
		{"another method than one", Rule{Method: []string{"!POST"}}, get("http", 80), filter.Block},
		{"another method than that of the request", Rule{Method: []string{"!POST", "!GET"}}, get("http", 80), filter.Pass},
		{"one method and not another", Rule{Method: []string{"GET", "!POST"}}, get("http", 80), filter.Block},
		{"tunnels have another method", Rule{Method: []string{"!GET"}}, tunnel(443, filter.Name, connect), filter.Block},
		{"everything but tunnels", Rule{Method: []string{"!CONNECT"}}, tunnel(443, filter.Name, connect), filter.Pass},
		{"other methods", Rule{Method: []string{"GET", "POST"}}, tunnel(443, filter.Name, connect), filter.Pass},
	} {
		tt.rule.Name, tt.rule.Action = "r", "block"
		e := newEngine(t, []Rule{tt.rule})
		for s := filter.Name; s <= tt.t.Last && !tt.t.Verdict.Final(); s++ {
			e.Decide(t.Context(), tt.t, s)
		}
		if got := tt.t.Verdict.Action; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPortsAndSchemesThatAreNone(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		key  string
	}{
		{Rule{Port: []string{"80", "0"}}, "port[1]"},
		{Rule{Port: []string{"http"}}, "port[0]"},
		{Rule{Port: []string{"90-80"}}, "port[0]"},
		{Rule{Port: []string{"1-65536"}}, "port[0]"},
		{Rule{Port: []string{""}}, "port[0]"},
		{Rule{Scheme: []string{"http://"}}, "scheme[0]"},
		{Rule{Scheme: []string{""}}, "scheme[0]"},
		{Rule{FullURL: []string{"a", "("}}, "full-url[1]"},
		{Rule{FullURL: []string{"!"}}, "full-url[0]"},
	} {
		tt.rule.Name, tt.rule.Action = "r", "block"
		_, err := New(Config{{Name: "p", Rules: []Rule{tt.rule}}}, nil, Parts{})
		if at := (*setting.Error)(nil); !errors.As(err, &at) || !strings.HasSuffix(at.Key, tt.key) {
			t.Errorf("%+v: %v, want an error at %s", tt.rule, err, tt.key)
		}
	}
}
