package engine

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

// TestConditionsOfAnExchange tries each rule alone on a request and its response, step by step.
func TestConditionsOfAnExchange(t *testing.T) {
	for options, want := range map[string]bool{
		`flow:to_server; http.method; content:"POST";`:                            true,
		`http.uri; content:"/b"; urilen:<10;`:                                     true,
		`http.uri; content:"/b"; urilen:>10;`:                                     false,
		`http.uri; to_uppercase; content:"/B?Q";`:                                 true,
		`http.user_agent; content:!"x";`:                                          false,
		`http.host; content:"a.example"; bsize:9;`:                                true,
		`http.request_body; content:"secret"; fast_pattern;`:                      true,
		`flow:to_client; http.stat_code; content:"200"; file.data; content:"MZ";`: true,
		`flow:to_client; file.data; content:"MZ"; startswith; filesize:<10;`:      true,
		`flow:to_client; file.data; content:"MZ"; filesize:>10;`:                  false,
		`flow:to_client; filename:"x.exe";`:                                       true,
		`flow:to_client; fileext:"txt";`:                                          false,
		`flow:to_client; filemagic:"pe32";`:                                       true,
		`flow:to_client; file.data; entropy: value > 0.5;`:                        true,
		`app-layer-event:http.invalid_host;`:                                      true,
		`app-layer-event:http.other;`:                                             false,
		`content:"Host: a.example";`:                                              true,
		`content:"secret"; content:"Host";`:                                       true,
		`content:"absent";`:                                                       false,
		`http.content_length:6;`:                                                  true,
		`http.request_body; content:"secret"; flowbits:isset,nothing;`:            false,
		`http.request_body; content:"secret"; flowbits:isnotset,nothing;`:         true,
		`http.request_body; content:"secret"; xbits:isset,nothing,track ip_src;`:  false,
		`http.request_body; content:"secret"; flowint:n,notset;`:                  true,
		`http.request_body; content:"secret"; flowint:n,>,3;`:                     false,
		`http.request_body; content:"secret"; dataset:set,own,type string;`:       true,
		`http.request_body; pcre:"/sec(?P<flow_v>r.t)/"; content:"secret";`:       true,
		`http.request_body; base64_decode; base64_data; content:"x";`:             false,
	} {
		e := ruled(t, "alert http any any -> any any (msg:\"m\"; "+options+" sid:1;)")
		if got := len(inspected(e)) > 0; got != want {
			text, _ := e.Explain(1)
			t.Errorf("%s alerts: %v, want %v\n%s%+v", options, got, want, text, e.Traces())
		}
	}
}

// TestRulesTalkToEachOther has rules that set what others test, in the order in which they run.
func TestRulesTalkToEachOther(t *testing.T) {
	e := ruled(t,
		`alert http any any -> any any (http.method; content:"POST"; flowbits:set,posted; flowint:n,=,3; xbits:set,seen,track ip_src,expire 60; noalert; sid:1;)`,
		`alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; flowbits:isset,posted; flowint:n,==,3; sid:2;)`,
		`alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; xbits:isset,seen,track ip_dst; sid:3;)`,
		`alert http any any => any any (http.method; content:"POST"; http.stat_code; content:"200"; sid:4;)`,
		`alert http any any -> any any (http.method; content:"GET"; sid:5;)`)
	var shown []uint32
	for _, a := range inspected(e) {
		if !a.Silent {
			shown = append(shown, a.SID)
		}
	}
	slices.Sort(shown)
	if !slices.Equal(shown, []uint32{2, 3, 4}) {
		t.Errorf("the rules %v alert, want 2, 3 and 4", shown)
	}
	next, _, err := New(Config{Previous: e})
	if err != nil || next.State() != e.State() {
		t.Error("the state was not taken over", err)
	}
	var out, doc bytes.Buffer
	if err := e.WriteProfile(&out, 3, false); err != nil || strings.Count(out.String(), "\n") < 6 {
		t.Errorf("the profile is\n%s%v", out.String(), err)
	}
	if err := e.WriteProfile(&doc, 0, true); err != nil || !strings.Contains(doc.String(), `"signature_id": 4`) {
		t.Errorf("the profile is\n%s%v", doc.String(), err)
	}
	for _, x := range []struct {
		app  rule.Proto
		dir  rule.Direction
		want bool
	}{{rule.HTTP1, rule.ToServer, true}, {rule.HTTP1, rule.ToClient, true}, {rule.TLS, rule.ToServer, false}} {
		if e.Has(x.app, x.dir, rule.Line) != x.want {
			t.Errorf("rules for %d in direction %d: %v", x.app, x.dir, !x.want)
		}
	}
}

// ruled compiles rules for messages.
func ruled(t *testing.T, rules ...string) *Engine {
	t.Helper()
	rs, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(strings.Join(rules, "\n")))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	vars, ports := address.Groups()
	e, mistakes, err := New(Config{Rules: rs, Vars: vars, Ports: ports, Classes: Classes()})
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	return e
}

// inspected returns the alerts for a request and its response.
func inspected(e *Engine) (alerts []Alert) {
	h := &traffic.HTTP{Events: map[string]bool{"http.invalid_host": true}}
	tx := &Tx{Flow: &state.Flow{}, Source: h.Joined(), App: rule.HTTP1, L4: rule.TCP, Now: time.Unix(1e9, 0),
		Client: netip.MustParseAddrPort("10.0.0.1:1000"), Server: netip.MustParseAddrPort("192.0.2.1:80")}
	tx.Packet.Established = true
	q, s := &h.Sides[0], &h.Sides[1]
	field := func(name, value string) traffic.Header {
		return traffic.Header{Name: []byte(name), Value: []byte(value)}
	}
	q.Line, q.Method, q.Target, q.Protocol = []byte("POST /a/../b?q=1 HTTP/1.1"), []byte("POST"), []byte("/a/../b?q=1"), []byte("HTTP/1.1")
	q.Headers, q.RawHead = []traffic.Header{field("Host", "a.example"), field("Content-Length", "6")}, []byte("Host: a.example\r\nContent-Length: 6\r\n\r\n")
	s.Line, s.Protocol, s.Code, s.Reason = []byte("HTTP/1.1 200 OK"), []byte("HTTP/1.1"), []byte("200"), []byte("OK")
	s.Headers, s.RawHead = []traffic.Header{field("Content-Disposition", "attachment; filename=x.exe")}, []byte("Content-Disposition: attachment; filename=x.exe\r\n\r\n")
	for i, dir := range []rule.Direction{rule.ToServer, rule.ToClient} {
		side := &h.Sides[i]
		for _, at := range []rule.Progress{rule.Line, rule.Headers, rule.Body, rule.Complete} {
			if side.At = at; at == rule.Body {
				side.Body, side.HasBody = []byte([]string{"secret", "MZ.."}[i]), true
			}
			alerts = e.Inspect(tx, dir, at, alerts)
		}
	}
	tx.Close()
	return alerts
}
