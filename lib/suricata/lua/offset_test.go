package lua

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

// A script gets the place where the content before it ended, counted from one.
func TestOffsetOfScripts(t *testing.T) {
	for _, x := range []struct {
		options, need string
		want          int
	}{
		{`http.header.raw; content:"Host"; lua:a.lua;`, "buffer", 5},
		{`http.header.raw; content:"Host"; lua:a.lua;`, "http.request_headers.raw", 5},
		{`content:"Host"; http_raw_header; lua:a.lua;`, "http.request_headers.raw", 5},
		{`http.header.raw; lua:a.lua;`, "buffer", 1},
		{`http.header.raw; content:"Host"; content:"a.b"; distance:0; lua:a.lua;`, "buffer", 10},
		{`http.uri; content:"/x"; endswith; lua:a.lua;`, "buffer", 5},
		{`http.uri; content:!"y"; lua:a.lua;`, "buffer", 1},
		{`http.uri; content:"/x"; http.header.raw; content:"Host"; lua:a.lua;`, "buffer", 5},
		{`http.uri; pcre:"/^.w/"; lua:a.lua;`, "buffer", 3},
	} {
		rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader("alert http any any -> any any ("+x.options+" sid:1;)"))
		if err != nil || len(mistakes) > 0 {
			t.Fatal(x.options, err, mistakes)
		}
		for offset, want := range map[int]bool{x.want: true, x.want + 1: false, x.want - 1: false} {
			text := fmt.Sprintf("function init() return {[%q] = tostring(true)} end\nfunction match(args) if args.offset == %d then return 1 end return 0 end", x.need, offset)
			e, mistakes, err := engine.New(engine.Config{Rules: rules, Beside: map[string][]byte{"a.lua": []byte(text)}, Scripts: NewPool(Limits{}).Load})
			if err != nil || len(mistakes) > 0 {
				t.Fatal(x.options, err, mistakes)
			}
			h := &traffic.HTTP{}
			h.Sides[0] = traffic.Side{Line: []byte("GET /w/x HTTP/1.1"), Method: []byte("GET"), Target: []byte("/w/x"), Protocol: []byte("HTTP/1.1"), At: rule.Complete,
				RawHead: []byte("Host: a.b\r\n\r\n"), Headers: []traffic.Header{{Name: []byte("Host"), Value: []byte("a.b")}}}
			end := netip.MustParseAddrPort("192.0.2.1:80")
			tx := &engine.Tx{Flow: &state.Flow{}, Source: h.Joined(), App: rule.HTTP1, L4: rule.TCP, Client: end, Server: end, Now: time.Unix(1e9, 0)}
			if got := len(e.Inspect(tx, rule.ToServer, rule.Complete, nil)) > 0; got != want {
				t.Errorf("%s with the need %s: the offset is %d: %v, want %v", x.options, x.need, offset, got, want)
			}
		}
	}
}
