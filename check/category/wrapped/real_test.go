package wrapped

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shuultuur/test/data"
)

var link = regexp.MustCompile(`(?i)(?:href|src|content|action|data-[a-z-]+)=["']?((?:https?:)?/[^"'<> ]+)`)

var codedRun = regexp.MustCompile(`[A-Za-z0-9+]{8,}`)

// realURLs returns host and target of the URLs in real pages, and of those in real lists.
func realURLs(t testing.TB) (all [][2]string) {
	seen := map[[2]string]bool{}
	add := func(raw, base string) {
		raw = strings.ReplaceAll(raw, "&amp;", "&")
		if strings.HasPrefix(raw, "//") {
			raw = "https:" + raw
		} else if strings.HasPrefix(raw, "/") {
			raw = "https://" + base + raw
		}
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			if it := [2]string{strings.ToLower(u.Hostname()), u.RequestURI()}; !seen[it] {
				seen[it] = true
				all = append(all, it)
			}
		}
	}
	pages, _ := filepath.Glob(filepath.Join(data.Path(t, "pages"), "*.html"))
	for _, name := range pages {
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(p, -1) {
			add(string(m[1]), "www.page-of-"+strings.TrimSuffix(filepath.Base(name), ".html")+".com")
		}
	}
	f, err := os.Open(data.Path(t, "lists", "ut1.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, "/urls") {
			for s := bufio.NewScanner(in); s.Scan(); {
				add("https://"+s.Text(), "")
			}
		}
	}
	return all
}

// TestFewOrdinaryURLsSeemToHaveAnAddress: of real URLs at most one in 100,000 has what is found in it by
// chance: a host that is not written there.
func TestFewOrdinaryURLsSeemToHaveAnAddress(t *testing.T) {
	all, found, wrong := realURLs(t), 0, 0
	if len(all) < 20_000 {
		t.Fatalf("only %d URLs", len(all))
	}
	var f Finder
	for _, u := range all {
		f.Target(u[0], []byte(u[1]))
		plain := strings.ToLower(u[1])
		for range mostEscapes {
			if p, err := url.PathUnescape(plain); err == nil {
				plain += " " + p
			}
		}
		for _, run := range codedRun.FindAllString(u[1], -1) {
			if p, err := base64.RawStdEncoding.DecodeString(run); err == nil {
				plain += "/" + strings.ToLower(string(p))
			}
		}
		for _, a := range f.Found {
			if found++; !isWritten(plain, a.Host) {
				wrong++
				t.Logf("%s in https://%s%s: %s", a.Host, u[0], u[1], a.Way)
			}
		}
		f.Host(u[0])
		for _, a := range f.Found {
			if found++; !strings.HasPrefix(u[0], strings.ReplaceAll(a.Host, ".", "-")+".") && !strings.HasPrefix(u[0], a.Host+".") {
				wrong++
				t.Logf("%s in the host %s: %s", a.Host, u[0], a.Way)
			}
		}
	}
	t.Logf("%d URLs, %d addresses in them, %d by chance", len(all), found, wrong)
	if wrong*100_000 > len(all) {
		t.Errorf("%d of %d addresses are found by chance, want at most one in 100,000 URLs", wrong, len(all))
	}
}

// isWritten reports whether a host is in a text as the host of an address, or by itself.
func isWritten(text, host string) bool {
	for rest := text; ; {
		i := strings.Index(rest, host)
		if i < 0 {
			return false
		}
		before := rest[:i]
		if rest = rest[i+1:]; before == "" || strings.IndexByte("/=:?&,|;!~@( \"'#", before[len(before)-1]) >= 0 || strings.HasSuffix(before, "www.") {
			return true
		}
	}
}

func BenchmarkRealTargets(b *testing.B) {
	all := realURLs(b)
	var f Finder
	i := 0
	for b.Loop() {
		u := &all[i%len(all)]
		f.Host(u[0])
		f.Target(u[0], []byte(u[1]))
		i++
	}
}
