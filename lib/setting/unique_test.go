package setting

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLargeFilesAreRead: the YAML reader compares each key with each, which a file of hundreds
// of thousands of keys must not pay for.
func TestLargeFilesAreRead(t *testing.T) {
	var doc strings.Builder
	const n = 60_000
	for i := range n {
		fmt.Fprintf(&doc, "name%d.example: 10.0.0.1\n", i)
	}
	var all map[string]string
	if err := LoadYAML([]byte(doc.String()), &all); err != nil || len(all) != n {
		t.Errorf("reading %d keys: got %d, error %v", n, len(all), err)
	}
	if err := LoadYAML([]byte("a: 1\na: 2\n"), &all); err == nil {
		t.Error("reading a short file with a key twice: got no error")
	}
}

// A key that is given twice is named once for each place, and reading takes time in proportion to
// the file.
func TestKeysGivenTwiceAreNamed(t *testing.T) {
	type inner struct {
		B, C string
	}
	type all struct {
		A    string
		In   inner
		Many map[string]int
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "a: x\nin: {b: y, c: z}\n", nil},
		{"one", "a: x\na: y\n", []string{`f:2: a: the key "a" is already in line 1: remove one of them`}},
		{"three times", "a: x\na: y\n\na: z\n", []string{`f:2: a: the key "a" is already in line 1: remove one of them`, `f:4: a: the key "a" is already in line 1: remove one of them`}},
		{"further in", "in:\n  b: x\n  c: y\n  b: z\n", []string{`f:4: in.b: the key "b" is already in line 2: remove one of them`}},
		{"in a map", "many: {x: 1, y: 2, x: 3}\n", []string{`f:1: many.x: the key "x" is already in line 1: remove one of them`}},
		{"and another mistake", "a: x\nnone: 1\na: y\n", []string{`f:2: none: there is no setting "none" here`, `f:3: a: the key "a" is already in line 1: remove one of them`}},
	} {
		var into all
		_, err := Read("f", []byte(c.text), &into)
		got := []string(nil)
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: reading gives %q, want %q", c.name, got, c.want)
		}
	}
	for name, line := range map[string]func(i int) string{
		"the same key": func(int) string { return "a:\n" },
		"other keys":   func(i int) string { return fmt.Sprintf("a%d: 1\n", i) },
	} {
		var b strings.Builder
		b.WriteString("many:\n")
		for i := range 20_000 {
			b.WriteString("  " + line(i))
		}
		var into all
		from := time.Now()
		_, err := Read("f", []byte(b.String()), &into)
		if took := time.Since(from); took > 10*time.Second || err != nil && len(err.Error()) > 10_000 {
			t.Errorf("%s: reading %d bytes took %s, and the error has %d bytes", name, b.Len(), took, len(fmt.Sprint(err)))
		}
	}
}
