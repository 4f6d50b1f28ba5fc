package ascii

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

func TestEveryByte(t *testing.T) {
	for i := range 256 {
		c := byte(i)
		lower := c
		if c < 0x80 {
			lower = strings.ToLower(string(rune(c)))[0]
		}
		if got := Lower(c); got != lower {
			t.Errorf("Lower(%q) = %q, want %q", c, got, lower)
		}
		hex := -1
		if n, err := strconv.ParseUint(string([]byte{c}), 16, 8); err == nil {
			hex = int(n)
		}
		if got := Unhex(c); got != hex {
			t.Errorf("Unhex(%q) = %d, want %d", c, got, hex)
		}
		alnum := '0' <= c && c <= '9' || 'a' <= lower && lower <= 'z'
		token := alnum || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
		if got := IsToken([]byte{'a', c}); got != token {
			t.Errorf("IsToken of %q is %v", c, got)
		}
	}
}

func TestOtherCharactersKeepTheirCase(t *testing.T) {
	const text, want = "AZ[`ÄÖ\xff Ĳ", "az[`ÄÖ\xff Ĳ"
	if got := ToLower(text); got != want {
		t.Errorf("ToLower: %q, want %q", got, want)
	}
	if got := AppendLower([]byte("X"), []byte(text)); !bytes.Equal(got, []byte("X"+want)) {
		t.Errorf("AppendLower: %q, want %q", got, "X"+want)
	}
}

func TestTheEmptyTextIsNoToken(t *testing.T) {
	if IsToken("") || !IsToken("x-y") {
		t.Error("only the second is a token")
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine(" a\r\n\tb\u00a0 c "); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
