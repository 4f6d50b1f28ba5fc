package filter

import (
	"strings"
	"testing"
)

func TestExtensionsAndMediaTypes(t *testing.T) {
	long := strings.Repeat("x/", 1000)
	for _, tt := range []struct {
		read func(string) (string, error)
		in   string
		want string // "" is an error
	}{
		{Extension, "exe", "exe"},
		{Extension, ".EXE", "exe"},
		{Extension, ".tar.gz", "tar.gz"},
		{Extension, "c++", "c++"},
		{Extension, "", ""},
		{Extension, ".", ""},
		{Extension, "..", ""},
		{Extension, "*.exe", ""},
		{Extension, "ex?", ""},
		{Extension, "a/exe", ""},
		{Extension, " exe", ""},
		{Extension, "exe mp3", ""},
		{Extension, "exe\tmp3", ""},
		{Extension, "exe\u00a0", ""},
		{Extension, "exe\x00", ""},
		{Extension, long, ""},
		{MediaType, long, ""},
		{MediaType, "text/html", "text/html"},
		{MediaType, "Application/X-MSDownload", "application/x-msdownload"},
		{MediaType, "image/svg+xml", "image/svg+xml"},
		{MediaType, "image/*", "image/*"},
		{MediaType, "", ""},
		{MediaType, "html", ""},
		{MediaType, "text/", ""},
		{MediaType, "/html", ""},
		{MediaType, "*/*", ""},
		{MediaType, "text/h*", ""},
		{MediaType, "text/html/x", ""},
		{MediaType, "text/html; charset=utf-8", ""},
		{MediaType, "text/html,text/plain", ""},
		{MediaType, "text /html", ""},
		{MediaType, "text/html\n", ""},
		{MediaType, "text/ĥtml", ""},
	} {
		got, err := tt.read(tt.in)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: got %q, %v; want %q", tt.in, got, err, tt.want)
		}
		if err != nil && (!strings.Contains(err.Error(), "write it like") || len(err.Error()) > 200) {
			t.Errorf("the error about %q is long, or does not say how to write it: %v", tt.in, err)
		}
	}
}

func TestASiteIsTheRegisteredDomain(t *testing.T) {
	for host, want := range map[string]struct {
		site   string
		shared bool
	}{
		"shop.example": {"shop.example", true}, "www.shop.example": {"shop.example", true}, "a.b.shop.co.uk": {"shop.co.uk", true},
		"me.github.io": {"me.github.io", true}, "github.io": {"github.io", false}, "co.uk": {"co.uk", false},
		"localhost": {"localhost", false}, "127.0.0.1": {"127.0.0.1", false}, "2001:db8::1": {"2001:db8::1", false}, "": {"", false},
	} {
		if site, shared := Site(host); site != want.site || shared != want.shared {
			t.Errorf("Site(%q) = %q, %v; want %q, %v", host, site, shared, want.site, want.shared)
		}
	}
}
