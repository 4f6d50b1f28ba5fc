package input

import (
	"strings"
	"testing"
)

func TestPortsAndTheirOpposite(t *testing.T) {
	for words, want := range map[string][2]string{
		"":            {"", "1-65535"},
		"80":          {"80", "1-79 81-65535"},
		"81 80 90-95": {"80-81 90-95", "1-79 82-89 96-65535"},
		"any":         {"1-65535", ""},
		"1024-":       {"1024-65535", "1-1023"},
		"-1023":       {"1-1023", "1024-65535"},
		"x 0 - 9-8":   {"", "1-65535"},
	} {
		all := strings.Fields(words)
		if got := [2]string{strings.Join(PortsOf(all).Words(), " "), strings.Join(OtherPorts(all), " ")}; got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
