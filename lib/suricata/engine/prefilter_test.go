package engine

import (
	"strings"
	"testing"
)

// TestShortFastPatternsGiveWayToRarerTexts: a rule waits for the rarest text that it needs in the
// same bytes if its fast pattern has four bytes or less.
func TestShortFastPatternsGiveWayToRarerTexts(t *testing.T) {
	for _, c := range []struct{ matches, want string }{
		{`file.data; content:"|5c|u0"; pcre:"/\/\x5cu0[a-d]/";`, `"/\\u0" in file.data`},
		{`file.data; content:"|5c|u0"; pcre:"/\x5cu[a-d]0/";`, `"\\u0" in file.data`},
		{`file.data; content:".exe"; content:"Zq"; content:"xK9~vJw"; nocase;`, `"xk9~vjw" in file.data`},
		{`file.data; content:"unescape("; content:"xK9~vJw";`, `"unescape(" in file.data`},
		{`content:"a="; pcre:"/a=xK9~vJw\d/";`, `"a=xK9~vJw" in payload`},
		{`file.data; content:".exe"; pcre:!"/xK9~vJw/";`, `".exe" in file.data`},
		{`http.location; content:".exe"; pcre:"/xK9~vJw/";`, `".exe" in http.location`},
	} {
		e := build(t, `alert http any any -> any any (msg:"x"; flow:to_client; `+c.matches+` sid:1;)`)
		if text, _ := e.Explain(1); !strings.Contains(text, "waits for "+c.want+"\n") {
			t.Errorf("explaining %s gave:\n%s\nwant it to wait for %s", c.matches, text, c.want)
		}
	}
}
