package entry

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// words writes an entry down: quotes around quoted words, + before joined ones.
func words(e Entry) string {
	var all []string
	for i, t := range e.Tokens {
		text := t.Text
		if t.Quoted {
			text = `"` + text + `"`
		}
		if i > 0 && t.Joined {
			text = "+" + text
		}
		all = append(all, text)
	}
	if e.Blank {
		return "_ " + strings.Join(all, " ")
	}
	return strings.Join(all, " ")
}

func TestEntries(t *testing.T) {
	for _, c := range []struct{ name, text, want, bad string }{
		{"nothing", "", "", ""},
		{"lines without words", "\n ; a comment\n\t\r\n", "", ""},
		{"a record", "a 60 IN A 192.0.2.1\n", "a 60 IN A 192.0.2.1", ""},
		{"without an end of the line", "a A 192.0.2.1", "a A 192.0.2.1", ""},
		{"two", "a A 1\r\nb A 2\n", "a A 1|b A 2", ""},
		{"the owner before", "a A 1\n  A 2\n\tA 3\n", "a A 1|_ A 2|_ A 3", ""},
		{"parentheses", "a SOA ( b ; c\n c\n 1 )\nd A 1\n", "a SOA b c 1|d A 1", ""},
		{"a parenthesis first", "( a\nA 1 )\n", "a A 1", ""},
		{"quotes", `a TXT "b ; (c" "" d` + "\n", `a TXT "b ; (c" "" d`, ""},
		{"quotes at a word", `a HTTPS 1 . alpn="h2,h3"` + "\n", `a HTTPS 1 . alpn= +"h2,h3"`, ""},
		{"a line within quotes", "a TXT \"b\nc\"\n", `a TXT "b\010c"`, ""},
		{"escapes", `a\.b\010\" TXT "\"\\"` + "\n", `a\.b\010\" TXT "\"\\"`, ""},
		{"an escape over 255", `a\256 A 1`, "", "over 255"},
		{"an escape of two digits", `a\01x A 1`, "", "three digits"},
		{"a backslash at the end", `a\`, "", "before nothing"},
		{"a backslash at the end of a line", "a\\\nb", "", "end of a line"},
		{"an open quote", `a TXT "b`, "", "no end"},
		{"an open parenthesis", "a SOA ( b\n", "", "not closed"},
		{"a closed parenthesis", "a SOA b )\n", "", "not opened"},
		{"too long", "a TXT " + strings.Repeat("x", maxEntry), "", "more than"},
	} {
		r := strings.NewReader(c.text)
		var got []string
		var err error
		for {
			var e Entry
			if e, err = Next(r); err != nil {
				break
			}
			got = append(got, words(e))
		}
		if c.bad == "" && !errors.Is(err, io.EOF) || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.bad)
		}
		if all := strings.Join(got, "|"); c.bad == "" && all != c.want {
			t.Errorf("%s: got %s, want %s", c.name, all, c.want)
		}
	}
}

func TestTTLs(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "60": 60, "1h30m": 5400, "1W": 604800, "2d": 172800, "1H5": 3605, "2147483647": 1<<31 - 1, "2147483648": 0, "4294967295": 0,
		"": -1, "h": -1, "1x": -1, "-1": -1, "1hh": -1, "4294967296": -1, "99999999999999999999": -1, "9999999W": -1,
	} {
		got, ok := TTL(Token{Text: text})
		if ok != (want >= 0) || ok && int64(got) != want {
			t.Errorf("TTL(%q) = %d, %v, want %d", text, got, ok, want)
		}
	}
	if _, ok := TTL(Token{Text: "60", Quoted: true}); ok {
		t.Error("a quoted number is a TTL")
	}
}

func TestTypes(t *testing.T) {
	for text, want := range map[string]uint16{"A": 1, "AAAA": 28, "WKS": 11, "NSAP-PTR": 23, "DSYNC": 66, "TYPE65280": 65280, "TYPE65536": 0, "TYPE": 0, "": 0, "a": 0} {
		if got := Type(text); got != want {
			t.Errorf("Type(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, c := range []struct{ text, want, bad string }{
		{"1-3 a$ A 192.0.2.$", "a1 A 192.0.2.1|a2 A 192.0.2.2|a3 A 192.0.2.3", ""},
		{"0-4/2 $ 60 IN PTR h$.example.", "0 60 IN PTR h0.example.|2 60 IN PTR h2.example.|4 60 IN PTR h4.example.", ""},
		{"7-8 a${1,3,d} CNAME b${0,4,x}", "a008 CNAME b0007|a009 CNAME b0008", ""},
		{"8-8 a${-8} CNAME b${0,2,o}", "a0 CNAME b10", ""},
		{"10-10 a$$ CNAME b${0,2,X}", "a$ CNAME b0A", ""},
		{`1-1 a\$ A 192.0.2.$`, "a$ A 192.0.2.1", ""},
		{"1 a$ A 1", "", "not a range"},
		{"3-1 a$ A 1", "", "not a range"},
		{"1-2/0 a$ A 1", "", "not a range"},
		{"0-2000000 a$ A 1", "", "more than"},
		{"1-2 a$ A", "", "no type"},
		{"1-2", "", "no type"},
		{"1-2 a$ 60 IN x y", "", "no type"},
		{"1-2 a${ A 1", "", "not closed"},
		{"1-2 a${x} A 1", "", "is not like"},
		{"1-2 a${-2,3} A 1", "a-01 A 1|a000 A 1", ""},
		{"1-2 a${-5,1,x} A 1", "", "negative"},
	} {
		e, err := Next(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGenerator(e.Tokens)
		var got []string
		for err == nil {
			var text string
			var ok bool
			if text, ok, err = g.Next(); !ok {
				break
			}
			got = append(got, text)
		}
		if all := strings.Join(got, "|"); all != c.want || (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("$GENERATE %s: got %s, %v; want %s, %q", c.text, all, err, c.want, c.bad)
		}
	}
}
