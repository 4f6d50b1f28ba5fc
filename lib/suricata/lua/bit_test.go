package lua

import (
	"testing"

	"shuultuur/lib/suricata/traffic"
)

// TestScriptsMayAskForTheLibrariesTheyHave: as LuaJIT, scripts ask for "bit", whose numbers have 32
// bits and a sign (bitop.luajit.org/api.html).
func TestScriptsMayAskForTheLibrariesTheyHave(t *testing.T) {
	for _, is := range []string{
		`require("bit").band(0xff, 0x0f, 3) == 3`, `require("bit").bor(1, 2, 8) == 11`, `require("bit").bxor(6, 3) == 5`,
		`require("bit").bnot(0) == -1`, `require("bit").lshift(1, 31) == -2147483648`, `require("bit").lshift(1, 32) == 1`,
		`require("bit").rshift(-1, 28) == 15`, `require("bit").arshift(-256, 8) == -1`, `require("bit").arshift(256, 8) == 1`,
		`require("bit").rol(0x12345678, 12) == 0x45678123`, `require("bit").ror(0x12345678, 12) == 0x67812345`,
		`require("bit").bswap(0x12345678) == 0x78563412`, `require("bit").tobit(0xffffffff) == -1`, `require("bit").tobit(0xffffffff + 1) == 0`,
		`require("bit").tohex(1) == "00000001"`, `require("bit").tohex(-1) == "ffffffff"`, `require("bit").tohex(-1, -8) == "FFFFFFFF"`,
		`require("bit").tohex(0x87654321, 4) == "4321"`, `require("bit").tohex(1, 0) == ""`,
		`require("bit") == bit`, `require("string").len("abc") == 3`, `require("table").concat({"a", "b"}) == "ab"`, `require("math").max(1, 2) == 2`,
	} {
		p := NewPool(Limits{})
		if !match(t, p, "function init() return {} end function match() if "+is+" then return 1 end return 0 end", &traffic.HTTP{}) {
			t.Errorf("%s is false; %d errors", is, p.Errors.Load())
		}
	}
	for _, name := range []string{"os", "io", "bit32", "suricata.bit", "print", ""} {
		p := NewPool(Limits{})
		if match(t, p, "function init() return {} end function match() require(\""+name+"\") return 1 end", &traffic.HTTP{}) || p.Errors.Load() != 1 {
			t.Errorf("there is a library %q", name)
		}
	}
}
