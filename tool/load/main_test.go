package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsAreAbbreviatedAsInHTTPLoad(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-p 5 -s 3 urls", "-parallel 5 -seconds 3 urls"},
		{"-r 10 -j -f 100 urls", "-rate 10 -jitter -fetches 100 urls"},
		{"-t -v -c urls", "-throttle -verbose -checksum urls"},
		{"-T 100 -ti 5 -si ips -ci X", "-Throttle 100 -timeout 5 -sip ips -cipher X"},
		{"-pr 127.0.0.1:8080 --par=3", "-proxy 127.0.0.1:8080 -parallel=3"},
		{"-para 3 -keep -html -x", "-parallel 3 -keepalive -html -x"}, // values are not flags
		{"-seed 4 -see 4", "-seed 4 -seed 4"},
		{"-b 4 -- -p", "-batch 4 -- -p"},
		{"urls -p 5 more -s 3", "urls -parallel 5 more -seconds 3"}, // flags stand anywhere
		{"-nonsense 1 -p 2", "-nonsense 1 -parallel 2"},             // for flag to complain about
	} {
		got, err := Expand(httpFlagSet(), strings.Fields(c.args))
		if err != nil {
			t.Errorf("expanding %s: %v", c.args, err)
			continue
		}
		if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
			t.Errorf("expanding %s (-want +got):\n%s", c.args, diff)
		}
	}
}

func TestAmbiguousFlagOfOursIsRefused(t *testing.T) {
	if _, err := Expand(httpFlagSet(), []string{"-h", "x"}); err != nil {
		t.Errorf("expanding -h: %v", err)
	}
	if _, err := Expand(httpFlagSet(), []string{"-ht", "x"}); err == nil || !strings.Contains(err.Error(), "-html or -http2") {
		t.Errorf("-ht: %v, want an error that names both", err)
	}
}

func TestCommandLineMistakesAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"http http://127.0.0.1/", "one of parallel, rate and batch"},
		{"http -p 1 -r 1 http://127.0.0.1/", "one of parallel, rate and batch"},
		{"http -p -1 http://127.0.0.1/", "at least 1"},
		{"http -p 100000 http://127.0.0.1/", "at most 20000"},
		{"http -p 1 -j http://127.0.0.1/", "jitter requires rate"},
		{"http -p 1 -s 1e9 http://127.0.0.1/", "seconds"},
		{"http -p 1 ftp://127.0.0.1/", "no such file"},
		{"http -p 1 " + write("u1", "http://127.0.0.1/\n\nftp://x/\n"), "u1:3: \"ftp://x/\": unknown protocol"},
		{"http -p 1 " + write("u2", "\n"), "no URLs"},
		{"http -p 1 -cipher RC5 http://127.0.0.1/", `cipher "RC5"`},
		{"http -p 1 -ca " + write("ca", "x") + " http://127.0.0.1/", "no PEM certificate"},
		{"http -p 1 -sip " + write("sip", "127.0.0.1\nhere\n") + " http://127.0.0.1/", `sip:2: "here"`},
		{"http -p 1 -order up http://127.0.0.1/", `order "up"`},
		{"http -p 1 -header X http://127.0.0.1/", `header "X"`},
		{"http -p 1 http://192.0.2.1/", "-allow 192.0.2.1"},
		{"http -p 1 -proxy 192.0.2.1:80 http://127.0.0.1/", "-allow 192.0.2.1"},
		{"http -p 1 -proxy 127.0.0.1:80 http://192.0.2.1/", "-allow 192.0.2.1"},
		{"origin -fault flood=1", `fault "flood"`},
		{"origin -fault reset", "reset=0.01"},
		{"origin -fault reset=0.6 -fault stall=0.6", "more than 1"},
		{"origin -listen=", "neither"},
	} {
		var stdout, stderr strings.Builder
		code := Main(strings.Fields(c.args), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("load %s: exit %d, %q; want exit 1 and %q", c.args, code, stderr.String(), c.want)
		}
	}
}

func TestCommandLineMakesARun(t *testing.T) {
	base := serve(t, OriginConfig{}).url
	dir := t.TempDir()
	urls := filepath.Join(dir, "urls")
	if err := os.WriteFile(urls, []byte(base+"/size/100\n"+base+"/size/100?x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		var stdout, stderr strings.Builder
		code := Main([]string{"http", "-p", "2", "-f", "20", "-progress", "-json", filepath.Join(dir, name+".json"), "-html", filepath.Join(dir, name+".html"), urls}, &stdout, &stderr)
		if code != 0 {
			t.Fatalf("load http exited with %d: %s", code, stderr.String())
		}
		for _, want := range []string{"20 fetches, ", "2000 bytes, in ", "100 mean bytes/connection", "  code 200 -- 20\n", "errors: none"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("the report lacks %q:\n%s", want, stdout.String())
			}
		}
	}
	var stdout, stderr strings.Builder
	if code := Main([]string{"compare", filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")}, &stdout, &stderr); code != 0 {
		t.Fatalf("load compare exited with %d: %s", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), "fetches/sec") {
		t.Errorf("load compare printed no fetches/sec:\n%s", stdout.String())
	}
	if page, err := os.ReadFile(filepath.Join(dir, "a.html")); err != nil || !strings.Contains(string(page), "</html>") {
		t.Errorf("the HTML report is incomplete (%v)", err)
	}
}
