package files

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestMarksTellACutFileFromAChangedOne(t *testing.T) {
	marks := func(text string) Marks {
		var all Marks
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))} {
			m := Marking{Reader: r}
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{&m}); err != nil {
				t.Fatal(err)
			}
			if all != nil && string(all) != string(m.Marks) {
				t.Errorf("the marks of %d bytes depend on how they are read", len(text))
			}
			all = m.Marks
		}
		return all
	}
	whole := strings.Repeat("0123456789abcde\n", 5000)
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"nothing":                      {"", false},
		"too little to say":            {whole[:7], false},
		"the first 8 bytes":            {whole[:8], true},
		"the first lines":              {whole[:320], true},
		"half":                         {whole[:40000], true},
		"all of it":                    {whole, false},
		"more than that":               {whole + whole, false},
		"another file":                 {"x" + whole[:40000], false},
		"its end":                      {whole[20008:], false},
		"half, and one byte is wrong":  {whole[:10000] + "x" + whole[10001:40000], false},
		"a part of it, and other text": {whole[:10000] + strings.Repeat("other\n", 1000), false},
	} {
		if got := marks(c.text).Begins(marks(whole)); got != c.want {
			t.Errorf("%s: it begins the whole: %v, want %v", name, got, c.want)
		}
	}
}
