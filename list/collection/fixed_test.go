package collection

import (
	"archive/tar"
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/source"
)

// A server serves what it was last given.
type server struct {
	*httptest.Server
	content []byte
}

func serve(t *testing.T) *server {
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.content) }))
	t.Cleanup(s.Close)
	return s
}

// update opens the lists, has the gateway fetch the ones named, and opens them again.
func update(t *testing.T, cfg Config, data string, names ...string) (*Collection, error) {
	t.Helper()
	open := func() *Collection {
		c, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open()
	client := source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext)
	var failed error
	for _, name := range names {
		if _, err := c.Update(t.Context(), client, name); err != nil {
			failed = err
		}
	}
	return open(), failed
}

// categories returns the categories that a list has a host in.
func categories(t *testing.T, c *Collection, name, host string) (all []string) {
	t.Helper()
	found, err := c.Lists[name].Ask(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		all = append(all, f.Category)
	}
	return all
}

func tarOf(t *testing.T, members ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		h := tar.Header{Name: members[i], Mode: 0o644, Size: int64(len(members[i+1]))}
		if to, link := strings.CutPrefix(members[i+1], "-> "); link {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeSymlink {
			_, _ = w.Write([]byte(members[i+1]))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAFetchedListDoesNotEnterAnothersCategory: not at first, and not later.
func TestAFetchedListDoesNotEnterAnothersCategory(t *testing.T) {
	json := func(category string) []byte {
		return []byte(`[{"entry": "evil.example", "category": "` + category + `"}, {"entry": "a.example", "category": "games"}, {"entry": "b.example", "category": "games"}, {"entry": "c.example", "category": "games"}]`)
	}
	csv := func(category string) []byte {
		return []byte("domain,category\nevil.example," + category + "\na.example,games\nb.example,games\nc.example,games\n")
	}
	tree := func(category string) []byte {
		return tarOf(t, category+"/domains", "evil.example\n", "games/domains", "a.example\nb.example\nc.example\n")
	}
	alias := func(category string) []byte {
		return tarOf(t, "games/domains", "a.example\nevil.example\nb.example\n", category, "-> games")
	}
	expressions := func(category string) []byte {
		return tarOf(t, category+"/expressions", "evil[.]example\n", "games/domains", "a.example\nb.example\nc.example\n")
	}
	items := func(category string) []byte {
		return []byte("#listcategory: \"" + category + "\"\nevil.example\na.example\nb.example\n")
	}
	for _, x := range []struct {
		name    string
		format  list.FormatName
		content func(category string) []byte
	}{
		{"json", "json", json}, {"json guessed", "", json}, {"csv", "csv", csv}, {"tree", list.UT1, tree}, {"tree guessed", "", tree},
		{"alias", list.UT1, alias}, {"alias guessed", "", alias}, {"expressions", list.UT1, expressions}, {"e2guardian", list.E2guardian, items}, {"e2guardian guessed", "", items},
	} {
		for _, owner := range []string{"a file", "a fetched list", "the name of a list", "a list taken first"} {
			if owner != "a file" && x.name != "json" && x.name != "tree guessed" {
				continue // whose category it is does not depend on the format
			}
			for _, later := range []bool{false, true} {
				data := t.TempDir()
				srv, second := serve(t), serve(t)
				cfg := Config{"feed": {Config: list.Config{Format: x.format}, Fetch: source.Config{URL: []string{srv.URL + "/feed"}}}}
				first := []string{"feed"}
				switch owner {
				case "a file":
					file := filepath.Join(data, "good.txt")
					write(t, file, []byte("good.example\n"))
					cfg["own"] = List{Config: list.Config{Format: list.Domains, Path: setting.Source(file), Category: "good"}}
				case "a fetched list":
					cfg["own"] = List{Config: list.Config{Format: list.Domains, Category: "good"}, Fetch: source.Config{URL: []string{second.URL}}}
				case "the name of a list":
					cfg["good"] = List{Config: list.Config{Format: list.Domains}, Fetch: source.Config{URL: []string{second.URL}}}
				case "a list taken first":
					second.content = []byte(`[{"entry": "good.example", "category": "good"}]`)
					cfg["own"] = List{Config: list.Config{Format: "json"}, Fetch: source.Config{URL: []string{second.URL}}}
					if _, err := update(t, cfg, data, "own"); err != nil {
						t.Fatal(err)
					}
				}
				if later {
					srv.content = x.content("games")
					if _, err := update(t, cfg, data, first...); err != nil {
						t.Fatalf("%s: %v", x.name, err)
					}
				}
				srv.content = x.content("good")
				c, _ := update(t, cfg, data, "feed")
				if got := categories(t, c, "feed", "evil.example"); slices.Contains(got, "good") {
					t.Errorf("%s, the category belongs to %s, later: %v: evil.example is in %q", x.name, owner, later, got)
				}
				if slices.Contains(c.Lists["feed"].Categories(), "good") {
					t.Errorf("%s, the category belongs to %s, later: %v: the list has it", x.name, owner, later)
				}
			}
		}
	}
}

// TestSettingsGiveAListItsCategories: what they name is the list's, also if another one has it.
func TestSettingsGiveAListItsCategories(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(data, "own.txt")
	write(t, file, []byte("own.example\n"))
	srv := serve(t)
	srv.content = []byte(`[{"entry": "bad.example", "category": "adult"}, {"entry": "new.example", "category": "new"}, {"entry": "plain.example"}]`)
	cfg := Config{"own": {Config: list.Config{Format: list.Domains, Path: setting.Source(file), Category: "adult"}}}
	cfg["feed"] = List{Config: list.Config{Format: "json", Categories: []string{"adult"}}, Fetch: source.Config{URL: []string{srv.URL}}}
	c, err := update(t, cfg, data, "feed")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"bad.example": "adult", "new.example": "", "plain.example": "feed"} {
		if got := strings.Join(categories(t, c, "feed", host), " "); got != want {
			t.Errorf("%s is in %q, want %q", host, got, want)
		}
	}
	if p := strings.Join(problem.Texts(c.Problems()), "\n"); !strings.Contains(p, "list feed") || !strings.Contains(p, "new") {
		t.Errorf("/health does not name what is left out: %q", p)
	}
}

// TestAFetchedListKeepsItsFormat: a list whose format was recognised once is read in it from then on.
func TestAFetchedListKeepsItsFormat(t *testing.T) {
	names := hosts("a", 20)
	for what, next := range map[string][]byte{
		"json":    []byte(`[{"entry": "evil.example", "category": "x"}]`),
		"tree":    tarOf(t, "x/domains", "evil.example\n"+names),
		"adblock": []byte("[Adblock Plus]\n" + strings.Repeat("/evil[.]example/\n", 30)),
		"rpz":     []byte("$TTL 60\n" + strings.Repeat("evil.example CNAME .\n", 30)),
	} {
		data := t.TempDir()
		srv := serve(t)
		srv.content = []byte(names)
		cfg := Config{"feed": {Fetch: source.Config{URL: []string{srv.URL}, Shrink: "100%"}}}
		if _, err := update(t, cfg, data, "feed"); err != nil {
			t.Fatal(err)
		}
		srv.content = next
		c, err := update(t, cfg, data, "feed")
		if got := categories(t, c, "feed", "evil.example"); len(got) > 0 && got[0] != "feed" {
			t.Errorf("%s: evil.example is in %q", what, got)
		}
		if err == nil && what != "tree" {
			t.Errorf("%s is taken in place of a list of names", what)
		}
		// Another address is another list.
		cfg["feed"] = List{Fetch: source.Config{URL: []string{srv.URL + "/new"}, Shrink: "100%"}}
		if _, err := update(t, cfg, data, "feed"); err != nil {
			t.Errorf("%s from another address: %v", what, err)
		}
	}
}

// TestOnlyTrustedListsAnswer: a list from outside may refuse a name, and not lead it elsewhere.
func TestOnlyTrustedListsAnswer(t *testing.T) {
	for line, answers := range map[string]bool{
		"||bank.example^$dnsrewrite=192.0.2.1": true, "||bank.example^$dnsrewrite=evil.example": true, "||bank.example^$dnsrewrite=NOERROR;A;127.0.0.1": true,
		"|bank.example^$important,dnsrewrite=2001:db8::1": true, "192.168.1.66 bank.example": true, "||bank.example^$dnsrewrite=NOERROR;HTTPS;1 evil.example": true,
		"||bank.example^$dnsrewrite=NXDOMAIN": false, "||bank.example^$dnsrewrite=0.0.0.0": false, "0.0.0.0 bank.example": false, "||bank.example^": false,
	} {
		for _, trusted := range []bool{false, true} {
			data := t.TempDir()
			srv := serve(t)
			srv.content = []byte(line + "\n||a.example^\n||b.example^\n")
			cfg := Config{"feed": {Config: list.Config{Format: list.Adblock, Trusted: trusted}, Fetch: source.Config{URL: []string{srv.URL}}}}
			c, err := update(t, cfg, data, "feed")
			if err != nil {
				t.Fatal(err)
			}
			r := c.Reports()[0]
			if got, want := r.Bad == 0, trusted || !answers; got != want {
				t.Errorf("%q, trusted: %v: taken: %v, want %v (%v)", line, trusted, got, want, r.Problems)
			}
		}
	}
	_, _, _, err := source.Config{}.Resolve(list.Config{Path: "own.txt", Trusted: true})
	if err == nil {
		t.Error("a list that is not fetched may be called trusted")
	}
}
