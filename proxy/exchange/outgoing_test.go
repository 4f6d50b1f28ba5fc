package exchange

import "testing"

func TestHeadRewriting(t *testing.T) {
	x := Exchange{storage: new(storage)}
	for _, tt := range []struct{ in, want string }{
		{"/", "/?q=1"}, {"/?", "/?q=1"}, {"/a?b", "/a?b&q=1"}, {"/a?q=0&b=%20&q", "/a?b=%20&q=1"}, {"/a?%71=0", "/a?q=1"}, {"/?qq=0", "/?qq=0&q=1"},
	} {
		if got := string(setQuery([]byte(tt.in), "q", "1")); got != tt.want {
			t.Errorf("setQuery(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"gzip, deflate, br, zstd", "gzip, deflate, br, zstd"}, {"gzip;q=1.0,  dcb;q=0.9, *;q=0", "gzip;q=1.0, *;q=0"}, {"sdch", "identity"}, {"", ""},
	} {
		if got := string(x.encodings([]byte(tt.in))); got != tt.want {
			t.Errorf("encodings(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"a=b; c=d", "a=b; c=d"}, {"shuultuur=x", ""}, {"a=b;shuultuur=x; c=d", "a=b; c=d"},
		{"xshuultuur=1; shuultuur=x", "xshuultuur=1"},
	} {
		if got := string(x.cookie([]byte(tt.in))); got != tt.want {
			t.Errorf("cookie(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
}
