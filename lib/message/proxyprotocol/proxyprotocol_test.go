package proxyprotocol

import (
	"bytes"
	"strings"
	"testing"
)

func TestPROXYHeaders(t *testing.T) {
	for _, tt := range []struct {
		in   string
		from string // "" invalid
		n    int
		bad  bool
	}{
		{"PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\nGET", "192.0.2.7:1234", 43, false},
		{"PROXY TCP6 2001:db8::1 2001:db8::2 1234 80\r\n", "[2001:db8::1]:1234", 44, false},
		{"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.8 1 2\r\n", "192.0.2.7:1", 50, false},
		{"PROXY UNKNOWN\r\n", "", 15, false},
		{"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", 35, false},
		{"PROXY TCP4 192.0.2.7", "", 0, false},
		{"P", "", 0, false},
		{"POST http://x/ HTTP/1.1", "", -1, false},
		{"", "", -1, false},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 1234\r\n", "", 0, true},
		{"PROXY TCP4 ::1 ::1 1 2\r\n", "", 0, true},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 01 80\r\n", "", 0, true},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 65536 80\r\n", "", 0, true},
		{"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "", 0, true},
		{"PROXY " + strings.Repeat("x", 120), "", 0, true},
		{V2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90rest", "192.0.2.7:1234", 28, false},
		{V2 + "\x21\x21\x00\x24\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" + strings.Repeat("\x00", 16) + "\x04\xd2\x1f\x90", "[2001:db8::1]:1234", 52, false},
		{V2 + "\x20\x00\x00\x00", "", 16, false},
		{V2 + "\x21\x31\x00\x01x", "", 17, false},
		{V2 + "\x21\x11\x00\x0c\xc0", "", 0, false},
		{V2 + "\x21\x11\x00\x04\xc0\x00\x02\x07", "", 0, true},
		{V2 + "\x11\x11\x00\x00", "", 0, true},
		{V2 + "\x21\x11\xff\xff", "", 0, true},
	} {
		from, n, err := Parse([]byte(tt.in))
		got := ""
		if from.IsValid() {
			got = from.String()
		}
		if got != tt.from || n != tt.n || (err != nil) != tt.bad {
			t.Errorf("Parse(%q) = %q, %d, %v; want %q, %d, error %v", tt.in, got, n, err, tt.from, tt.n, tt.bad)
		}
	}
}

func TestManyTLVs(t *testing.T) {
	for size, ok := range map[int]bool{12: true, 728: true, 729: true, 12 + 4096: true, Max - 16: true, Max - 15: false, 65535: false} {
		b := append([]byte(V2+"\x21\x11"), byte(size>>8), byte(size))
		b = append(append(b, 192, 0, 2, 7, 127, 0, 0, 1, 4, 210, 31, 144), make([]byte, size-12)...)
		if from, n, err := Parse(b); ok != (err == nil && n == 16+size && from.String() == "192.0.2.7:1234") {
			t.Errorf("a header of %d bytes: %v, %d, %v; accepted %t", 16+size, from, n, err, ok)
		}
	}
}

func FuzzPROXY(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\nGET"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte(V2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90rest"))
	f.Add([]byte(V2 + "\x20\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, n, err := Parse(b)
		switch {
		case n > len(b), n > Max, err != nil && (n != 0 || from.IsValid()), n <= 0 && from.IsValid():
			t.Fatalf("Parse returned %v, %d, %v", from, n, err)
		case n == 0 && err == nil && len(b) >= Max:
			t.Fatalf("Parse wants more bytes than the longest header, having %d", len(b))
		case n > 0:
			again, m, err := Parse(append(bytes.Clone(b[:n]), "more"...))
			if again != from || m != n || err != nil {
				t.Fatalf("Parse returned %v, %d, but with more bytes after the header %v, %d, %v", from, n, again, m, err)
			}
		}
	})
}
