package match

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// compiled compiles the matches of a rule on the payload.
func compiled(t testing.TB, options string) (g Group, variables int) {
	t.Helper()
	rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader("alert tcp any any -> any any ("+options+" sid:1;)"))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(options, err, mistakes)
	}
	var c Compiler
	groups := c.Groups(1)
	k, err := c.Group(rules[0].Groups[0], 0, func(rule.Match) error { return nil })
	if err != nil {
		t.Fatal(options, err)
	}
	return append(groups, k)[0], len(rules[0].Vars)
}

// TestMatchesHold tries keywords on buffers: those before the bar match, those after it do not.
func TestMatchesHold(t *testing.T) {
	for options, buffers := range map[string][2][]string{
		`content:"ab";`:                                                            {{"xab", "ab"}, {"a", "AB", ""}},
		`content:"Ab"; nocase;`:                                                    {{"xaB", strings.Repeat("-", 100) + "AB"}, {"a"}},
		`content:!"ab";`:                                                           {{"ba", ""}, {"cab"}},
		`content:"ab"; startswith;`:                                                {{"abc"}, {"cab"}},
		`content:"ab"; endswith;`:                                                  {{"cab"}, {"abc", "b"}},
		`content:"ab"; offset:1; depth:3;`:                                         {{"xab", "xxab"}, {"ab", "xxxab"}},
		`content:"a"; content:"b"; distance:1; within:2;`:                          {{"axb", "axxb", "ab.a.b"}, {"ab", "axxxb"}},
		`content:"a"; isdataat:2,relative;`:                                        {{"a..", "xa..."}, {"a.", "a"}},
		`content:"a"; isdataat:!1,relative;`:                                       {{"a", "aa"}, {"ab"}},
		`isdataat:3;`:                                                              {{"abcd"}, {"abc"}},
		`pcre:"/^a.c$/"; content:"a";`:                                             {{"abc"}, {"abbc"}},
		`pcre:!"/b+c/i"; content:"a";`:                                             {{"ab"}, {"aBC"}},
		`content:"a"; pcre:"/^\d+(?=x)/R";`:                                        {{"a12x", "aa3x"}, {"a12", "ax"}},
		`byte_test:2,>,256,0;`:                                                     {{"\x01\x01", "\x02\x00"}, {"\x01\x00", "\x01"}},
		`byte_test:2,=,256,0,little;`:                                              {{"\x00\x01"}, {"\x01\x00"}},
		`byte_test:1,&,4,0;`:                                                       {{"\x05"}, {"\x03"}},
		`byte_test:1,!=,4,0;`:                                                      {{"\x05"}, {"\x04"}},
		`byte_test:1,<=,4,0;`:                                                      {{"\x04"}, {"\x05"}},
		`byte_test:1,^,4,0;`:                                                       {{"\x01", "\x05"}, {"\x04"}},
		`content:"n="; byte_test:0,>=,31,0,relative,string,hex;`:                   {{"n=1f", "n=0x20;"}, {"n=1e", "n=g"}},
		`byte_test:2,=,-5,0,string,dec;`:                                           {{"-5"}, {"5.", "+5", "", "-", "-4"}},
		`byte_test:0,>,1000,0,string,dec;`:                                         {{"-1", " -1", "1001", "+1001"}, {"1", "--1", "- 1", "-", "", "99999999999999999999"}},
		`byte_test:0,=,0,0,string,hex;`:                                            {{"0xg", "-0", "0x", "0x0"}, {"x0", "g", ""}},
		`content:"abcd"; byte_test:1,=,0x63,-2,relative;`:                          {{"abcd", "xabcd"}, {"abdc", ""}},
		`content:"b"; byte_test:1,=,0x61,-2,relative;`:                             {{"ab", "xab", "bab"}, {"b", "xb"}},
		`content:"b"; byte_test:2,=,0x6162,-2,relative,big;`:                       {{"ab"}, {"b", "bb"}},
		`content:"b"; byte_test:1,!=,0x61,-2,relative;`:                            {{"xb"}, {"ab", "b", ""}},
		`byte_test:1,=,0x61,-1;`:                                                   {{}, {"a", "aa", ""}},
		`byte_jump:1,0; content:"x"; within:1;`:                                    {{"\x02..x"}, {"\x01..x", "\x09x"}},
		`byte_jump:1,0,multiplier 2,align; content:"x"; within:1;`:                 {{"\x01....x"}, {"\x01..x"}},
		`byte_jump:1,0,from_beginning; content:"x"; within:1;`:                     {{"\x02.x"}, {"\x03.x"}},
		`byte_extract:1,0,n; content:"x"; offset:n; depth:1;`:                      {{"\x03..x"}, {"\x02..x", ""}},
		`byte_math:bytes 1,offset 0,oper *,rvalue 2,result n; byte_test:1,=,n,1;`:  {{"\x03\x06"}, {"\x03\x05"}},
		`byte_math:bytes 1,offset 0,oper <<,rvalue 1,result n; byte_test:1,=,n,1;`: {{"\x03\x06"}, {"\x03\x07"}},
		`byte_math:bytes 1,offset 0,oper -,rvalue 1,result n; byte_test:1,=,n,1;`:  {{"\x03\x02"}, {"\x03\x03"}},
		`byte_math:bytes 1,offset 0,oper /,rvalue 2,result n; byte_test:1,=,n,1;`:  {{"\x06\x03"}, {"\x06\x02"}},
		`base64_decode:offset 2; base64_data; content:"secret";`:                   {{"..c2VjcmV0", "..c2VjcmV0=.."}, {"c2VjcmV0", "..b3BlbiE="}},
		`entropy: value > 1; content:"a";`:                                         {{"abcd"}, {"aaaa"}},
	} {
		g, variables := compiled(t, options)
		for want, list := range map[bool][]string{true: buffers[0], false: buffers[1]} {
			for _, buf := range list {
				var in Inspector
				in.Begin(variables, nil)
				in.Rewind()
				got := in.Holds(&g, []byte(buf), Facts{})
				if got != want {
					n, ok := in.Failed(&g)
					t.Errorf("%s on %q: %v, want %v; match %d failed (%v)", options, buf, got, want, n, ok)
				}
				if in.Release(); in.Over || in.Work == 0 {
					t.Errorf("%s on %q took %d and was given up: %v", options, buf, in.Work, in.Over)
				}
			}
		}
	}
}

// TestKnownPlacesChangeNothing tries contents with and without what a prefilter has seen.
func TestKnownPlacesChangeNothing(t *testing.T) {
	g, _ := compiled(t, `content:"abcd"; content:"efgh"; distance:2;`)
	var patterns []Pattern
	var sought []Sought
	for i, m := range g.Matches {
		c := Required(m)
		patterns = append(patterns, PatternOf(c))
		sought = append(sought, Sought{Content: c, Pat: int32(i), Raw: int32(i)})
	}
	f := NewPrefilter(patterns)
	if n := f.Numbers(); len(n) != 2 || n[patterns[1]] != 1 {
		t.Errorf("the numbers of patterns are %v", n)
	}
	for _, text := range []string{"abcd..efgh", "abcd.efgh", "abcd", "efgh abcd", "abcdefgh abcd efgh abcd  efgh", "", "nothing"} {
		data := []byte(text + strings.Repeat(" ", 100))
		var seen Sight
		f.Scan(data, &seen, func(int32) {})
		seen.Data = data
		var in Inspector
		in.Begin(0, nil)
		want := in.Holds(&g, data, Facts{})
		for _, known := range []Facts{{Contents: sought, Body: &seen}, {Contents: sought, Head: &seen}} {
			got := !known.Lacks() && in.Holds(&g, data, known)
			if got != want {
				t.Errorf("%q with known places: %v, without %v", text, got, want)
			}
		}
	}
}

func TestTransformsChangeBuffers(t *testing.T) {
	var gz, zl bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write([]byte("packed"))
	w.Close()
	z := zlib.NewWriter(&zl)
	z.Write([]byte("packed"))
	z.Close()
	for _, x := range []struct{ name, arg, in, out string }{
		{"dotprefix", "", "a.b", ".a.b"}, {"to_lowercase", "", "aB", "ab"}, {"to_uppercase", "", "aB", "AB"},
		{"url_decode", "", "a%20b+c%zz", "a b c%zz"}, {"strip_whitespace", "", "a \t b", "ab"}, {"compress_whitespace", "", "a \t b", "a b"},
		{"header_lowercase", "", "Ab: Cd\r\nEf: Gh\r\n", "ab: Cd\r\nef: Gh\r\n"}, {"strip_pseudo_headers", "", ":path: /\r\na: b\r\n", "a: b\r\n"},
		{"to_md5", "", "", "\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e"},
		{"domain", "", "www.example.co.uk", "example.co.uk"}, {"tld", "", "www.example.co.uk", "co.uk"},
		{"gunzip", "", gz.String(), "packed"}, {"gunzip", "max-size 3", gz.String(), "pac"}, {"zlib_deflate", "", zl.String(), "packed"},
		{"xor", "01ff", "ab", "\x60\x9d"}, {"xor", "offset 1, extract 1 0", "\x01a", "\x01\x60"},
		{"pcrexform", "a(.)c", "xabc", "b"}, {"from_base64", "", "YWI=", "ab"}, {"from_base64", "offset 1, bytes 4, mode rfc2045", "-YW I-", "ab"}, {"from_base64", "mode strict", "YWI=", "ab"},
		{"subslice", "1, 2", "abcd", "bc"}, {"subslice", "-2", "abcd", "cd"}, {"subslice", "2, 9, truncate", "abcd", "cd"}, {"subslice", "0, -1", "abcd", "abc"},
	} {
		f, err := NewTransform(rule.Transform{Name: x.name, Arg: x.arg}, nil)
		if err != nil {
			t.Errorf("%s %s: %v", x.name, x.arg, err)
			continue
		}
		if out, ok := f([]byte(x.in)); !ok || string(out) != x.out {
			t.Errorf("%s %s on %q: %q, %v; want %q", x.name, x.arg, x.in, out, ok, x.out)
		}
	}
	for name, arg := range map[string]string{"rot13": "", "gunzip": "max-size x", "xor": "key", "from_base64": "mode x", "subslice": "a", "pcrexform": "("} {
		if _, err := NewTransform(rule.Transform{Name: name, Arg: arg}, nil); err == nil {
			t.Errorf("%s %s is accepted", name, arg)
		}
	}
}
