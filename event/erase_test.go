package event

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestAPersonIsAWholeWord(t *testing.T) {
	p := Person{Users: []string{"anna"}, Clients: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}}
	for text, want := range map[string]bool{
		"anna": true, "user:anna": true, "paused for anna.": true, "who=anna&for=5m": true, "anna@10.9.9.9": true, "client:10.0.0.1": true, "by 10.0.0.1: off": true, "2001:db8::1 x": true,
		"": false, "hannah": false, "joanna": false, "annab": false, "anna.example": false, "10.0.0.10": false, "110.0.0.1": false, "10.0.0.1.5": false, "anna_b": false, "hannah anna": true,
	} {
		if got := p.In(text); got != want {
			t.Errorf("Person.In(%q) = %v, want the opposite", text, got)
		}
	}
}

func TestLinesOfAPersonAreErased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := OpenFile(Kind{"x", regexp.MustCompile("^[a-z]")}, path, func(b []byte, r *Row) []byte { return append(append(b, r.User...), '\n') })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write := func(users ...string) {
		t.Helper()
		for _, u := range users {
			if err := l.Write(t.Context(), []Row{{User: u}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("anna", "ben", "anna")
	n, err := l.Erase(t.Context(), Person{Users: []string{"anna"}}, false)
	if n != 2 || err != nil {
		t.Errorf("EraseLines = %d, %v; want 2", n, err)
	}
	write("carl")
	if got, err := os.ReadFile(path); err != nil || string(got) != "ben\ncarl\n" {
		t.Errorf("after the erasure the file has %q, %v; want the lines of ben and carl", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("after erasing, the file has the mode %v, %v, want -rw-r-----", info.Mode(), err)
	}
}
