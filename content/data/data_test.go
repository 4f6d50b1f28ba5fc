package data_test

import (
	"fmt"
	"slices"
	"testing"

	"shuultuur/content/data"
)

// visited collects the strings that a walker visits, those of the same place marked by the same letter.
func visited(walk func(visit func(place uint64, s []byte)) bool) (all []string, ok bool) {
	letters := map[uint64]byte{data.Names: 'n'}
	ok = walk(func(place uint64, s []byte) {
		if letters[place] == 0 {
			letters[place] = byte('a' + len(letters) - 1)
		}
		all = append(all, fmt.Sprintf("%c:%s", letters[place], s))
	})
	return all, ok
}

func TestStringsOfJSONAreVisitedWithTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		ok   bool
	}{
		{`{"a":"x","b":[1,"y","z"]} {"a":"\u0077\n\ud83d\ude00"}`, []string{"n:a", "a:x", "n:b", "b:y", "b:z", "n:a", "a:w 😀"}, true},
		{`["{\"in\":\"it\"}"]`, []string{"n:in", "a:it"}, true},
		{"\x1e[true,null]\n", nil, true},
		{"<plain text>", nil, false},
		{`["open`, nil, false},
	} {
		got, ok := visited(func(visit func(uint64, []byte)) bool { return data.WalkJSON([]byte(c.in), visit) })
		if !slices.Equal(got, c.want) || ok != c.ok {
			t.Errorf("%s: %q, %v, want %q, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestStringsOfProtobufAreVisitedWithTheirPlaces(t *testing.T) {
	inner := "\x0a\x03two\x10\x01"
	for _, c := range []struct {
		in   string
		want []string
		ok   bool
	}{
		{"\x0a\x03one\x10\x05\x1d\x01\x02\x03\x04\x21\x01\x02\x03\x04\x05\x06\x07\x08", []string{"a:one"}, true},
		{"\x12\x07" + inner + "\x12\x07" + inner, []string{"a:two", "a:two"}, true},
		{"\x0a\x09[\"three\"]", []string{"a:three"}, true},
		{"\x0a\x08\x00\x01word\x02\x03", []string{"a:word "}, true},
		{"\x0a\x7fcut", nil, false},
		{"", nil, false},
	} {
		got, ok := visited(func(visit func(uint64, []byte)) bool { return data.WalkProtobuf([]byte(c.in), 1, 0, visit) })
		if !slices.Equal(got, c.want) || ok != c.ok {
			t.Errorf("%q: %q, %v, want %q, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestEncodedTextIsFound(t *testing.T) {
	for in, want := range map[string]string{
		"c29tZSB3b3JkcyBoZXJl":  "some words here", // base64
		"short":                 "",
		"AAECAwQFBgcICQoLDA0OD": "", // bytes without text
	} {
		if got := string(data.TextOfBase64([]byte(in))); got != want {
			t.Errorf("base64 %q has the text %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"a%20b": "a b", "100%": "100%", "%ff": "%ff", "plain": "plain"} {
		if got := string(data.Unpercent([]byte(in))); got != want {
			t.Errorf("%q unescaped is %q, want %q", in, got, want)
		}
	}
	if got := string(data.LettersAhead([]byte("wor ds"))) + "+" + string(data.LettersBehind([]byte("wor ds"))); got != "wor+ds" {
		t.Errorf("the letters at the ends are %q", got)
	}
}
