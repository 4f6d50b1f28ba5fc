package rule

import "testing"

// FuzzParse searches for rules that make the parser panic.
func FuzzParse(f *testing.F) {
	f.Add(`alert http any any -> any any (msg:"a"; http.uri; content:"/x|0d 0a|"; nocase; distance:0; within:10; pcre:"/a(?=b)/Ri"; sid:1;)`)
	f.Add(`alert tcp any any <> [1.2.3.0/24,!1.2.3.4] [80,!81] (content:"a"; http_uri; byte_test:1,>,2,0,relative; byte_extract:2,0,x; isdataat:!x,relative; sid:2; rev:1;)`)
	f.Add(`drop dns any any -> any any (dns.query; dotprefix; content:".a"; endswith; threshold: type limit, track by_src, count 1, seconds 5; dataset:set,x,type string; sid:3;)`)
	f.Add(`alert http2 any any => any any (http2.window:>3,nb>1; entropy: value > 4; base64_decode:relative; base64_data; content:"b"; requires: version >= 9; sid:4;)`)
	p := NewParser()
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := p.Parse(text); err == nil && r == nil {
			t.Error("Parse returned neither a rule nor a mistake")
		}
	})
}
