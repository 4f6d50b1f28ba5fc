package lua

import (
	"strings"
	"testing"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// same is the beginning of a script that compares lists of values.
const same = `local function show(...)
		local t = {}
		for i = 1, select("#", ...) do t[i] = tostring((select(i, ...))) end
		return table.concat(t, "|")
	end
	function match() return show(`

// holds reports whether expressions of Lua have the values that want lists.
func holds(t *testing.T, p *Pool, expressions, want string, source engine.Source) bool {
	t.Helper()
	return match(t, p, strings.Replace(same, "return show(", "if show(", 1)+expressions+") == [==["+want+"]==] then return 1 end return 0 end", source)
}

// The examples follow the manual of Lua 5.1, 5.4 and 5.4.1.
func TestPatternsFindWhatTheManualSays(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`("hello world"):find("o w")`:                                        "5|7",
		`("hello world"):find("o", 6)`:                                       "8|8",
		`("hello"):find("l", -2)`:                                            "4|4",
		`("hello"):find("x")`:                                                "nil",
		`("a.b"):find(".", 2, true)`:                                         "2|2",
		`("a+b"):find("+", 1, true)`:                                         "2|2",
		`(""):find("")`:                                                      "1|0",
		`("abc"):find("", 10)`:                                               "nil",
		`("a [quick] b"):find("%[(%a+)%]")`:                                  "3|9|quick",
		`("hello"):match("^(h)(.-)o$")`:                                      "h|ell",
		`("key  = value"):match("^(%w+)%s*=%s*(%w+)$")`:                      "key|value",
		`("hello"):match("()ll()")`:                                          "3|5",
		`("f(a(b)c)d"):match("%b()")`:                                        "(a(b)c)",
		`("f(a(bc"):match("%b()")`:                                           "nil",
		`("say 'it' now"):match([[(["'])(.-)%1]])`:                           "'|it",
		`("aaab"):match("a-b")`:                                              "aaab",
		`("aaab"):match("a*")`:                                               "aaa",
		`("b"):match("a?b")`:                                                 "b",
		`("b"):match("a+b")`:                                                 "nil",
		`("2026-11-28"):match("(%d+)-(%d+)-(%d+)")`:                          "2026|11|28",
		`("x_1 Y"):match("[%w_]+"), ("x_1 Y"):match("[^%l]+")`:               "x_1|_1 Y",
		`("a]b"):match("[]]"), ("a-b"):match("[a%-]+")`:                      "]|a-",
		`("Ab1 ,"):gsub("%u", "U")`:                                          "Ub1 ,|1",
		`("a\0b"):find("%z")`:                                                "2|2",
		`("1f"):match("^%x+$"), ("1g"):match("^%x+$")`:                       "1f|nil",
		`("a,b"):match("%p"), ("a\1"):find("%c")`:                            ",|2|2",
		`("a$"):match("a$$"), ("a$b"):match("$b")`:                           "a$|$b",
		`("hello"):gsub("l", "L")`:                                           "heLLo|2",
		`("hello"):gsub("l", "L", 1)`:                                        "heLlo|1",
		`("hello world"):gsub("(%w+)", "<%1>")`:                              "<hello> <world>|2",
		`("hello world"):gsub("%w+", "%0 %0", 1)`:                            "hello hello world|1",
		`("hello world"):gsub("(%w+)%s*(%w+)", "%2 %1")`:                     "world hello|1",
		`("$name is $other"):gsub("%$(%w+)", {name = "x"})`:                  "x is $other|2",
		`("abc"):gsub("%w", function(c) if c == "b" then return "" end end)`: "ac|3",
		`("abc"):gsub("", "-")`:                                              "-a-b-c-|4",
		`("abc"):gsub("^a", "x")`:                                            "xbc|1",
		`("abc"):gsub("%w", "%%")`:                                           "%%%|3",
	} {
		if p := NewPool(Limits{}); !holds(t, p, expression, want, &traffic.HTTP{}) {
			t.Errorf("%s is not %s; %d errors", expression, want, p.Errors.Load())
		}
	}
	p := NewPool(Limits{})
	if !match(t, p, `function match() local out = "" for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do out = out .. v .. k end for w in ("x y"):gmatch("%a") do out = out .. w end if out == "1a2bxy" then return 1 end return 0 end`, &traffic.HTTP{}) {
		t.Errorf("gmatch does not find all; %d errors", p.Errors.Load())
	}
}

func TestPatternsThatAreWrongFailTheScript(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"[a", "[^", "%", "(a", "a)", "%1", "(a)%2", "%b", "%b(", strings.Repeat("(a)", maxCaptures+1), "[a%"} {
		p := NewPool(Limits{})
		if match(t, p, `function match() ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"):find("`+pattern+`"); return 1 end`, &traffic.HTTP{}) || p.Errors.Load() != 1 {
			t.Errorf("the pattern %s has %d errors, want one", pattern, p.Errors.Load())
		}
	}
}

func TestFunctionsForBitsTextAndDigests(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`bit.band(12, 10), bit.bor(12, 3), bit.bxor(6, 3)`:                                       "8|15|5",
		`bit.lshift(1, 4), bit.rshift(-1, 28), bit.rol(-2147483648, 1), bit.bnot(0)`:             "16|15|1|-1",
		`utf8.char(228, 8364), utf8.len("ä€"), utf8.codepoint("ä")`:                              "ä€|2|228",
		`utf8.len(""), select("#", utf8.codepoint("a", 5))`:                                      "0|0",
		`require("suricata.base64").encode("ab"), require("suricata.base64").encode_nopad("ab")`: "YWI=|YWI",
		`require("suricata.base64").decode("YWI="), require("suricata.base64").decode("?")`:      "ab|nil|not there",
		`require("suricata.hashlib").sha1_hexdigest("abc")`:                                      "a9993e364706816aba3e25717850c26c9cd0d89d", // FIPS 180
		`require("suricata.hashlib").sha256_hexdigest("")`:                                       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		`#require("suricata.hashlib").md5_digest("")`:                                            "16",
		`select("#", print("x")), select("#", require("suricata.log").info("x"))`:                "0|0",
	} {
		if p := NewPool(Limits{}); !holds(t, p, expression, want, &traffic.HTTP{}) {
			t.Errorf("%s is not %s; %d errors", expression, want, p.Errors.Load())
		}
	}
}

func TestScriptsSeeAWholeExchange(t *testing.T) {
	t.Parallel()
	h := &traffic.HTTP{}
	h.Sides[0] = traffic.Side{Line: []byte("POST /a HTTP/1.1"), Method: []byte("POST"), Target: []byte("/a"), At: rule.Complete, Body: []byte("in"), HasBody: true,
		RawHead: []byte("Host: x\r\nX-A: 1\r\n\r\n"), Headers: []traffic.Header{{Name: []byte("Host"), Value: []byte("x")}, {Name: []byte("X-A"), Value: []byte("1")}}}
	h.Sides[1] = traffic.Side{Line: []byte("HTTP/1.1 200 OK"), At: rule.Complete, Body: []byte("out"), HasBody: true, Headers: []traffic.Header{{Name: []byte("Server"), Value: []byte("y")}}}
	const tx = `require("suricata.http").get_tx():`
	for expression, want := range map[string]string{
		tx + "request_line()":                       "POST /a HTTP/1.1",
		tx + "response_line()":                      "HTTP/1.1 200 OK",
		tx + `request_header("x-a")`:                "1",
		tx + `response_header("server")`:            "y",
		tx + `response_header("none")`:              "nil|not there",
		tx + `request_headers()["X-A"]`:             "1",
		"HttpGetResponseHeaders().Server":           "y",
		"HttpGetRequestLine()":                      "POST /a HTTP/1.1",
		`HttpGetRequestHeader("Host")`:              "x",
		"HttpGetRequestHost()":                      "x",
		"HttpGetRequestBody()[1]":                   "in",
		"TlsGetSNI()":                               "nil|not there", // of another protocol
		`require("suricata.tls").get_tx():sni()`:    "nil|not there",
		`require("suricata.dns").get_tx():rrname()`: "nil|not there",
	} {
		for _, source := range []engine.Source{h, h.Joined()} { // the gateway gives the second
			if p := NewPool(Limits{}); !holds(t, p, expression, want, source) {
				t.Errorf("%s of a %T is not %s; %d errors", expression, source, want, p.Errors.Load())
			}
		}
	}
	p := NewPool(Limits{})
	if match(t, p, `function match() require("suricata.none"); return 1 end`, h) || p.Errors.Load() != 1 {
		t.Errorf("a library that does not exist is given to the script; %d errors", p.Errors.Load())
	}
}

func TestScriptsKeepValuesOnAConnection(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{})
	if !match(t, p, `function match()
		local v, n = require("suricata.flowvar").get("v"), require("suricata.flowint").get("n")
		if v:value() ~= nil or n:value() ~= nil or n:decr() ~= 0 then return 0 end
		v:set("abcdef", 3); n:set(7); n:incr(); n:incr(); n:decr()
		if v:value() == "abc" and n:value() == 8 then return 1 end
		return 0 end`, &traffic.HTTP{}) {
		t.Errorf("the values are lost; %d errors", p.Errors.Load())
	}
}
