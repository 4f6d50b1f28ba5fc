package arguments

import (
	"flag"
	"io"
	"slices"
	"testing"
)

func TestFlagsAreReadWhereverTheyStand(t *testing.T) {
	for _, c := range []struct {
		args, rest []string
		n          int
	}{
		{[]string{"-n", "3", "a", "b"}, []string{"a", "b"}, 3},
		{[]string{"a", "-n=3", "b"}, []string{"a", "b"}, 3},
		{[]string{"a", "b", "-n", "3"}, []string{"a", "b"}, 3},
		{[]string{"a", "--", "-n", "3"}, []string{"a", "-n", "3"}, 0},
		{nil, nil, 0},
	} {
		f := flag.NewFlagSet("x", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		n := f.Int("n", 0, "")
		if err := Parse(f, c.args); err != nil || *n != c.n || !slices.Equal(f.Args(), c.rest) {
			t.Errorf("%q: n is %d, the rest %q, error %v", c.args, *n, f.Args(), err)
		}
	}
}

func TestTheGatewayToAskIsAnEncryptedAddress(t *testing.T) {
	for _, c := range []struct {
		args []string
		at   string
		rest int
		bad  bool
	}{
		{[]string{"check"}, "", 1, false},
		{[]string{"-at", "https://filter.example:8081/", "why", "x"}, "https://filter.example:8081", 2, false},
		{[]string{"-at=http://127.0.0.1:8081", "why"}, "http://127.0.0.1:8081", 1, false},
		{[]string{"-at", "http://filter.example:8081", "why"}, "", 0, true},
		{[]string{"-at", "https://user@filter.example", "why"}, "", 0, true},
		{[]string{"-at", "https://filter.example"}, "", 0, true},
		{[]string{"-at"}, "", 0, true},
	} {
		at, rest, err := At(c.args)
		if at != c.at || len(rest) != c.rest || (err != nil) != c.bad {
			t.Errorf("%q: got %q, %q, %v", c.args, at, rest, err)
		}
	}
}
