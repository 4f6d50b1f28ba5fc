package match

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// TestTransformsAtTheirLimits has what transforms make of what they cannot transform: some leave
// it, some make it empty, and one leaves nothing to inspect.
func TestTransformsAtTheirLimits(t *testing.T) {
	var gz, zl bytes.Buffer
	g, z := gzip.NewWriter(&gz), zlib.NewWriter(&zl)
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{g, z} {
		if _, err := w.Write([]byte("packed")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const none = "no buffer"
	for _, x := range []struct{ name, arg, in, want string }{
		{"subslice", "0", "abcd", "abcd"}, {"subslice", "4", "abcd", ""}, {"subslice", "5", "abcd", ""}, {"subslice", "5, truncate", "abcd", ""},
		{"subslice", "-4", "abcd", "abcd"}, {"subslice", "-5", "abcd", ""}, {"subslice", "-5, truncate", "abcd", "abcd"},
		{"subslice", "1, 4", "abcd", ""}, {"subslice", "1, 4, truncate", "abcd", "bcd"}, {"subslice", "1, 3", "abcd", "bcd"},
		{"subslice", "-3, 2", "abcd", "bc"}, {"subslice", "0, -4", "abcd", ""}, {"subslice", "0, -5", "abcd", ""}, {"subslice", "3, -3", "abcd", "bc"},
		{"subslice", "0, -5, truncate", "abcd", ""}, {"subslice", "-9, 2, TRUNCATE", "abcd", "ab"},

		{"gunzip", "", "no gzip", ""}, {"gunzip", "", "\x1f\x8b", ""}, {"gunzip", "", gz.String()[:12], "p"}, {"gunzip", "", gz.String(), "packed"},
		{"gunzip", "max-size 1", gz.String(), "p"}, {"gunzip", "max-size 6", gz.String(), "packed"}, {"gunzip", "max-size 0", gz.String(), "packed"},
		{"gunzip", "", gz.String()[:gz.Len()-4], "packed"},
		{"zlib_deflate", "", "\xff\xff\xff", ""}, {"zlib_deflate", "", zl.String(), "packed"}, {"zlib_deflate", "max-size 2", zl.String(), "pa"},

		{"from_base64", "", "YWI=", "ab"}, {"from_base64", "", "YWI", "ab"}, {"from_base64", "", "!!!!", none}, {"from_base64", "mode strict", "YW!I=", none},
		{"from_base64", "mode strict", "YWI=", "ab"}, {"from_base64", "offset 4", "YWI=", "YWI="}, {"from_base64", "offset 9", "YWI=", "YWI="},
		{"from_base64", "bytes 4", "YWI=", "YWI="}, {"from_base64", "bytes 4", "YWI=YWI=", "ab"}, {"from_base64", "offset 4, bytes 4", "----YWI=-", "ab"},
		{"from_base64", "bytes 9", "YWI=", "YWI="},

		{"xor", "ff", "\x00\xff", "\xff\x00"}, {"xor", "0102", "\x01\x02\x03", "\x00\x00\x02"}, {"xor", "extract 1 0, offset 1", "\x01\x03\x04", "\x01\x02\x05"},
		{"xor", "extract 2 9, offset 0", "abc", "abc"}, {"xor", "extract 1 0, offset 9", "abc", "abc"}, {"xor", "extract 1 0, offset 3", "abc", "abc"},
		{"xor", "00", "abc", "abc"}, {"xor", "ffff", "a", "\x9e"},

		{"pcrexform", "a(.)c", "xabc", "b"}, {"pcrexform", "a(.)c", "xyz", "xyz"}, {"pcrexform", "abc", "abc", "abc"}, {"pcrexform", "a(x)?bc", "abc", "abc"},
		{"pcrexform", "(.*)", "abc", "abc"}, {"pcrexform", "()a", "abc", ""}, {"pcrexform", "(a)|(b)", "b", "b"}, {"pcrexform", "(?i)X(.)", "axb", "b"},

		{"url_decode", "", "a%20b", "a b"}, {"url_decode", "", "a+b", "a b"}, {"url_decode", "", "%4", "%4"}, {"url_decode", "", "%zz", "%zz"},
		{"url_decode", "", "%%41", "%A"}, {"url_decode", "", "%2541", "%41"}, {"url_decode", "", "%", "%"}, {"url_decode", "", "%00", "\x00"},

		{"strip_whitespace", "", " \t\r\n\v\f", ""}, {"strip_whitespace", "", " a b ", "ab"}, {"strip_whitespace", "", "ab", "ab"}, {"strip_whitespace", "", "\u00a0", "\u00a0"},
		{"compress_whitespace", "", "a  b", "a b"}, {"compress_whitespace", "", "  ", " "}, {"compress_whitespace", "", "a\t\n b", "a\tb"}, {"compress_whitespace", "", "ab", "ab"},

		{"header_lowercase", "", "Host: A\r\nX-Y: Z\r\n", "host: A\r\nx-y: Z\r\n"}, {"header_lowercase", "", "Host", "host"}, {"header_lowercase", "", ":Method: GET", ":method: GET"},
		{"strip_pseudo_headers", "", ":a: 1\r\nb: 2\r\n", "b: 2\r\n"}, {"strip_pseudo_headers", "", ":a: 1\r\n", ""}, {"strip_pseudo_headers", "", "b: 2", "b: 2"}, {"strip_pseudo_headers", "", "b: :2\r\n:c", "b: :2\r\n"},

		{"dotprefix", "", "a", ".a"}, {"dotprefix", "", ".a", "..a"}, {"to_lowercase", "", "ÄaB", "Äab"}, {"to_uppercase", "", "äaB", "äAB"},
	} {
		f, err := NewTransform(rule.Transform{Name: x.name, Arg: x.arg}, nil)
		if err != nil {
			t.Errorf("%s %s: %v", x.name, x.arg, err)
			continue
		}
		out, ok := f([]byte(x.in))
		got := string(out)
		if !ok {
			if got = x.in; out == nil {
				got = none
			}
		}
		if got != x.want {
			t.Errorf("%s %s of %q is %q, want %q", x.name, x.arg, x.in, got, x.want)
		}
	}
	for _, arg := range []string{"f, y", "0:-10", "1 1", "1,0", "", "1, 2, nottruncate", "1, 2, 3, 4", "1, 2, truncate, extra", "truncate"} {
		if _, err := NewTransform(rule.Transform{Name: "subslice", Arg: arg}, nil); err == nil {
			t.Errorf("subslice:%s is accepted", arg)
		}
	}
}
