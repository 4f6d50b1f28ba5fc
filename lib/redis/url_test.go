package redis

import (
	"fmt"
	"strings"
	"testing"
)

func TestURLsOfServers(t *testing.T) {
	for at, want := range map[string]string{
		"a.example:6380":                   "a.example:6380   0 false",
		"redis://a.example":                "a.example:6379   0 false",
		"rediss://eva:secret@[::1]:7000/3": "[::1]:7000 eva secret 3 true",
	} {
		c, err := ParseURL(at)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if got := fmt.Sprint(c.Addresses[0], " ", c.Username, " ", c.Password, " ", c.DB, " ", c.TLS != nil); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	for _, at := range []string{"http://a.example", "redis://a.example/x", "redis://eva:secret@a.example:x"} {
		if _, err := ParseURL(at); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error without the password", at, err)
		}
	}
}
