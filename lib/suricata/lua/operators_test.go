package lua

import (
	"testing"

	"shuultuur/lib/suricata/traffic"
)

// Scripts may use the operators of Lua 5.4, with its order of precedence.
func TestOperatorsOfNewerLua(t *testing.T) {
	for expression, want := range map[string]string{
		"6 & 3":                              "2",
		"6 | 3":                              "7",
		"6 ~ 3":                              "5",
		"~0":                                 "-1",
		"1 << 4":                             "16",
		"256 >> 4":                           "16",
		"1 << 64":                            "0",
		"16 << -4":                           "1",
		"7 // 2":                             "3",
		"-7 // 2":                            "-4",
		"1 + 2 & 3":                          "3",
		"1 | 2 & 3":                          "3",
		"1 | 2 ~ 3 & 1":                      "3",
		"1 << 2 + 1":                         "8",
		"2 ^ 3 // 3":                         "2",
		"-2 ^ 2":                             "-4",
		"~5 & 0xff":                          "250",
		"(1 | 2) << 2":                       "12",
		"#\"abc\" & 1":                       "1",
		"({5, 6})[2] >> 1":                   "3",
		"math.floor(7.5) // 2":               "3",
		"\"a\" .. (3 & 1)":                   "a1",
		"(3 & 1) == 1 and 2 | 4":             "6",
		"1 < 2 and 3 ~= 4":                   "true",
		"(function(x) return x & 6 end)(3)":  "2",
		"(\"x & y\"):len() | 8":              "13",
		"table.unpack({1, 2}) << 3":          "8",
		"rawlen({1, 2}) | 4":                 "6",
		"math.type(7 // 2)":                  "integer",
		"math.type(1.5)":                     "float",
		"math.tointeger(3) | 0":              "3",
		"table.pack(1, 2).n | 0":             "2",
		"table.move({1, 2}, 1, 2, 2)[3] | 0": "2",
	} {
		p := NewPool(Limits{})
		text := "local x <const> = 0 -- 1 & 2\nfunction match() if tostring(" + expression + ") == \"" + want + "\" then return 1 | x end return 0 end"
		if !match(t, p, text, &traffic.HTTP{}) {
			t.Errorf("%s is not %s", expression, want)
		}
	}
}

// Everything else stays as it is, and a mistake keeps its line number.
func TestTranslationKeepsScripts(t *testing.T) {
	for _, text := range []string{
		"local a = [==[ x & y ]==] --[[ 1 // 2\n]] return a",
		"for i = 1, 2 do if i ~= 1 then f'x & y' elseif i >= 2 then g{1, 2} end end",
		"repeat local x = t.a[1]:b(2) until x or not y",
		"goto done ::done:: return 0x1p4, 1e-5, .5, a.b.c, ...",
		"local function f(...) return select('#', ...) end",
		"x = function() while true do break end end y = -z",
		"t = {[1] = 2; a = 3, 'b'}",
		"s = 'it\\'s' .. \"a\\\"b\"",
		"",
	} {
		if got := translate(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if _, err := NewPool(Limits{}).Load("a.lua", []byte("x = 1 & & 2")); err == nil {
		t.Error("two operators in a row are a script")
	}
}
