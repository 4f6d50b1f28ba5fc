//go:build unix

package engine

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/test/race"
	"shuultuur/test/reading"
)

// growingRules has rules, or parts of one, that could be read again and again for each piece: a
// beginning, a piece, and an end. {i} becomes the number of the piece.
var growingRules = map[string][3]string{
	"rules":                   {"", `alert http any any -> any any (msg:"a{i}"; http.uri; content:"/a{i}"; sid:{i};)` + "\n", ""},
	"rules with one number":   {"", `alert http any any -> any any (http.uri; content:"/a"; sid:1; rev:{i};)` + "\n", ""},
	"rules without words":     {"", `alert http any any -> any any (http.uri; urilen:>{i}; sid:{i};)` + "\n", ""},
	"rules of one word":       {"", `alert http any any -> any any (http.uri; content:"aaaa"; content:!"b{i}"; sid:{i};)` + "\n", ""},
	"rules on bodies":         {"", `alert http any any -> any any (http.request_body; content:"aa"; pcre:"/(a|aa)+{i}$/"; sid:{i};)` + "\n", ""},
	"a rule without an end":   {"", `alert http any any -> any any (http.uri; `, ""},
	"options":                 {`alert http any any -> any any (http.uri; content:"a"`, "; nocase", "; sid:1;)\n"},
	"contents":                {"alert http any any -> any any (http.uri; ", `content:"a{i}"; `, "sid:1;)\n"},
	"contents after another":  {"alert http any any -> any any (http.request_body; ", `content:"a"; distance:0; `, "content:\"b\"; distance:0; sid:1;)\n"},
	"negated contents":        {"alert http any any -> any any (http.request_body; content:\"aa\"; ", `content:!"b{i}"; `, "sid:1;)\n"},
	"a long content":          {`alert http any any -> any any (http.uri; content:"`, "a", "\"; sid:1;)\n"},
	"hexadecimal content":     {`alert http any any -> any any (http.uri; content:"|`, "61 ", "|\"; sid:1;)\n"},
	"bars in a content":       {`alert http any any -> any any (http.uri; content:"`, "||", "\"; sid:1;)\n"},
	"backslashes":             {`alert http any any -> any any (msg:"`, `\\`, "\"; sid:1;)\n"},
	"lines that are joined":   {"alert http any any -> any any (msg:\"a\"; ", "\\\n", "sid:1;)\n"},
	"addresses":               {"alert http [10.0.0.1", ",10.{i}.0.0/16", "] any -> any any (http.uri; content:\"a\"; sid:1;)\n"},
	"negated addresses":       {"alert http [10.0.0.1", ",!10.{i}.0.0/16", "] any -> any any (http.uri; content:\"a\"; sid:1;)\n"},
	"groups of addresses":     {"alert http ", "[", "any any -> any any (sid:1;)\n"},
	"closed groups":           {"alert http ", "[10.0.0.1,", "10.0.0.2] any -> any any (sid:1;)\n"},
	"ports":                   {"alert http any [1", ",{i}:", "] -> any any (http.uri; content:\"a\"; sid:1;)\n"},
	"references":              {`alert http any any -> any any (http.uri; content:"a"`, "; reference:url,a.example/{i}", "; sid:1;)\n"},
	"metadata":                {`alert http any any -> any any (http.uri; content:"a"; metadata:a b`, ", k{i} v", "; sid:1;)\n"},
	"flowbits":                {`alert http any any -> any any (http.uri; content:"a"`, "; flowbits:set,b{i}", "; sid:1;)\n"},
	"bits that others set":    {"", `alert http any any -> any any (http.uri; content:"a"; flowbits:isset,b{i}; flowbits:set,c{i}; sid:{i};)` + "\n", ""},
	"expressions":             {`alert http any any -> any any (http.uri; content:"a"`, `; pcre:"/a[0-9]+{i}/"`, "; sid:1;)\n"},
	"a nested expression":     {`alert http any any -> any any (http.uri; content:"a"; pcre:"/`, "(a", "/\"; sid:1;)\n"},
	"alternatives":            {`alert http any any -> any any (http.uri; content:"a"; pcre:"/(a`, "|b{i}", ")x/\"; sid:1;)\n"},
	"counted repetitions":     {`alert http any any -> any any (http.uri; content:"a"; pcre:"/a`, "{9}", "/\"; sid:1;)\n"},
	"expressions that recede": {"", `alert http any any -> any any (http.request_body; content:"aa"; pcre:"/(a+)+b(?=x){i}/"; sid:{i};)` + "\n", ""},
	"transforms":              {`alert http any any -> any any (http.request_body`, "; to_lowercase; url_decode", `; content:"a"; sid:1;)` + "\n"},
	"transforms that expand":  {"", `alert http any any -> any any (http.request_body; xor:"{i}{i}"; to_sha256; content:"a"; sid:{i};)` + "\n", ""},
	"numbers":                 {`alert http any any -> any any (http.request_body; content:"a"`, "; byte_test:1,>,{i},0,relative", "; sid:1;)\n"},
	"jumps":                   {`alert http any any -> any any (http.request_body; content:"a"`, "; byte_jump:1,0,relative", "; sid:1;)\n"},
	"variables":               {`alert http any any -> any any (http.request_body; content:"a"`, "; byte_extract:1,0,v{i},relative", "; sid:1;)\n"},
	"coded bytes":             {`alert http any any -> any any (http.request_body; content:"a"`, "; base64_decode:bytes 4, relative; base64_data; content:\"a\"", "; sid:1;)\n"},
	"comments":                {"", "# alert http any any\n", ""},
	"empty lines":             {"", "\n", ""},
	"wrong lines":             {"", "alert http any any -> any any (wrong:{i}; sid:{i};)\n", ""},
	"brackets":                {"alert http any any -> any any ", "(", "sid:1;)\n"},
	"quotes":                  {"alert http any any -> any any (msg:", `"a"`, "; sid:1;)\n"},
	"spaces":                  {"alert http any any -> any any (", " ", "sid:1;)\n"},
	"semicolons":              {"alert http any any -> any any (", ";", "sid:1;)\n"},
}

func growRules(of [3]string, n int) string {
	var b strings.Builder
	b.WriteString(of[0])
	for i := range n {
		b.WriteString(strings.ReplaceAll(of[1], "{i}", fmt.Sprint(i+1)))
	}
	return b.String() + of[2]
}

// readRules reads rules, builds an engine of them and tries a message on it. It returns the
// processor time of reading, and that of the message.
func readRules(t *testing.T, text string) (read, tried time.Duration) {
	t.Helper()
	from := reading.ProcessorTime()
	rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(text))
	if err != nil {
		return reading.ProcessorTime() - from, 0
	}
	rules, _ = rule.Unique(rules)
	e, more, err := New(Config{Rules: rules})
	read = reading.ProcessorTime() - from
	if n := len(mistakes) + len(more); n > strings.Count(text, "\n")+1 {
		t.Errorf("%d lines have %d mistakes", strings.Count(text, "\n")+1, n)
	}
	size := 0
	for _, m := range append(mistakes, more...) {
		size += len(m.Error())
	}
	if size > 20*len(text)+1<<10 {
		t.Errorf("the mistakes of %d bytes are %d bytes", len(text), size)
	}
	if err != nil {
		return read, 0
	}
	body := []byte(strings.Repeat("a", 20_000))
	line := []byte("GET /" + strings.Repeat("a", 2000) + " HTTP/1.1")
	h := &traffic.HTTP{}
	h.Sides[0] = traffic.Side{Line: line, Method: line[:3], Target: line[4:2005], Body: body, HasBody: true, At: rule.Complete}
	end := netip.MustParseAddrPort("192.0.2.1:80")
	tx := &Tx{Flow: &state.Flow{}, Source: h.Joined(), App: rule.HTTP1, L4: rule.TCP, Client: end, Server: end, Now: time.Unix(1e9, 0)}
	from = reading.ProcessorTime()
	e.Inspect(tx, rule.ToServer, rule.Complete, nil)
	return read, reading.ProcessorTime() - from
}

// checkRules checks that reading rules takes time in proportion to their length, and a message no
// more than its budget, many times over for slow machines.
func checkRules(t *testing.T, name, text string) {
	t.Helper()
	read, tried := readRules(t, text)
	if most := 300*time.Millisecond + time.Duration(len(text))*10*time.Microsecond; read > most {
		t.Errorf("%s: reading %d bytes takes %s, at most %s", name, len(text), read, most)
	}
	if most := 500*time.Millisecond + time.Duration(len(text))*time.Microsecond; tried > most {
		t.Errorf("%s: a message takes %s by %d bytes of rules, at most %s", name, tried, len(text), most)
	}
}

// Reading rules takes time in proportion to their length, and so does a message that they see.
func TestReadingRulesIsLinear(t *testing.T) {
	race.Without(t)
	for name, of := range growingRules {
		n := 4
		for len(growRules(of, n)) < 64<<10 {
			n *= 2
		}
		checkRules(t, name, growRules(of, n))
	}
}

// Whatever the rules are, the work is bounded by their length.
func FuzzRulesEnd(f *testing.F) {
	for _, of := range growingRules {
		f.Add(of[0], of[1], of[2], uint16(100))
	}
	f.Fuzz(func(t *testing.T, begin, piece, end string, n uint16) {
		if race.On { // times would be those of the detector
			return
		}
		if len(begin)+len(end) > 4<<10 {
			return
		}
		checkRules(t, "fuzzed", growRules([3]string{begin, piece, end}, min(int(n), 64<<10/max(1, len(piece)+4))))
	})
}
