package list

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"shuultuur/lib/setting"
)

// treeOf has the files of a UT1 tree: categories with domains and urls, a split
// list, one in a folder, links, and files that are none of it.
var treeOf = map[string]string{
	"adult/domains":           "bad.com\nboth.com\n",
	"adult/urls":              "site.com/bad\n",
	"adult/expressions":       "(foo|bar)\n# no\nbaz\n",
	"adult/usage":             "black\n",
	"games/domains.0":         "play.com\n",
	"games/domains.1":         "\nboth.com\n",
	"finance/banking/domains": "bank.com\n",
	"porn":                    "-> adult",
	"xxx":                     "-> porn",
	"stand_in":                "games\n",
	"nowhere":                 "-> missing",
	"README":                  "a text\nwith lines\n",
	"global_usage":            "NAME: x\n",
}

func writeTree(t testing.TB, dir string) {
	t.Helper()
	for name, text := range treeOf {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, p)
		} else {
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func tarTree(t testing.TB, top string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	var names []string
	for name := range treeOf {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := &tar.Header{Name: top + name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(treeOf[name]))}
		target, link := strings.CutPrefix(treeOf[name], "-> ")
		if link {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if !link {
			tw.Write([]byte(treeOf[name]))
		}
	}
	if err := tw.WriteHeader(&tar.Header{Name: "../../etc/domains", Typeflag: tar.TypeReg, Size: 6}); err != nil {
		t.Fatal(err)
	}
	tw.Write([]byte("up.com"))
	tw.Close()
	zw.Close()
	return buf.Bytes()
}

func TestSquidGuardTree(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "plain"))
	writeTree(t, filepath.Join(dir, "nested", "blacklists"))
	for name, top := range map[string]string{"flat.tar.gz": "", "nested.tgz": "./blacklists/"} {
		if err := os.WriteFile(filepath.Join(dir, name), tarTree(t, top), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"plain", "nested", "flat.tar.gz", "nested.tgz"} {
		t.Run(name, func(t *testing.T) {
			f, rep := compilePath(t, Config{Path: setting.Source(filepath.Join(dir, name))})
			want := map[string][]string{
				"www.bad.com":  {"adult bad.com", "porn bad.com", "xxx bad.com"},
				"both.com":     {"adult both.com", "games both.com", "porn both.com", "stand_in both.com", "xxx both.com"},
				"site.com/bad": {"adult site.com/bad", "porn site.com/bad", "xxx site.com/bad"},
				"play.com":     {"games play.com", "stand_in play.com"},
				"bank.com":     {"finance/banking bank.com"},
				"up.com":       nil,
			}
			got := map[string][]string{}
			for url := range want {
				got[url] = ask(t, f, url)
				slices.Sort(got[url])
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("entries of the tree differ (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{"adult", "finance/banking", "games", "porn", "stand_in", "xxx"}, f.Categories()); d != "" {
				t.Errorf("categories of the tree differ (-want +got):\n%s", d)
			}
			if d := cmp.Diff(map[string]int{"adult": 5, "porn": 5, "xxx": 5, "games": 2, "stand_in": 2, "finance/banking": 1}, rep.Categories); d != "" {
				t.Errorf("entries of each category differ (-want +got):\n%s", d)
			}
			if !slices.ContainsFunc(rep.Problems, func(p Problem) bool { return strings.HasSuffix(p.File, "/nowhere") }) {
				t.Errorf("got %v, want a problem about the link to nowhere", rep.Problems)
			}
			if rep.Exprs != 2 || rep.Entries != 5 {
				t.Errorf("got %+v, want 2 expressions and 5 entries", rep)
			}
			where := filepath.Join(dir, name) + map[string]string{"plain": "", "nested": "/blacklists", "flat.tar.gz": "", "nested.tgz": "/blacklists"}[name]
			var q Query
			q.SetHost("both.com")
			found, err := f.Lookup(&q, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found {
				want := `"both.com" in ` + where + "/adult/domains:2"
				if m.Category == "games" || m.Category == "stand_in" {
					want = `"both.com" in ` + where + "/games/domains.1:2"
				}
				if got := f.Evidence(m); got != want {
					t.Errorf("Evidence in %s: got %s, want %s", m.Category, got, want)
				}
			}
		})
	}
}

func TestOneCategoryAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "domains"), []byte("a.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, _ := compilePath(t, Config{Path: setting.Source(dir)})
	if got, want := ask(t, f, "a.com"), []string{"own a.com"}; !slices.Equal(got, want) {
		t.Errorf("a.com: got %q, want %q", got, want)
	}
	f, _ = compilePath(t, Config{Path: setting.Source(dir), Category: "mine"})
	if got, want := ask(t, f, "a.com"), []string{"mine a.com"}; !slices.Equal(got, want) {
		t.Errorf("a.com in another category: got %q, want %q", got, want)
	}
}

func TestLinkOutOfTheTreeIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "tree"))
	if err := os.MkdirAll(filepath.Join(dir, "secret"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret", "domains"), []byte("secret.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "tree", "out")); err != nil {
		t.Fatal(err)
	}
	f, rep := compilePath(t, Config{Format: UT1, Path: setting.Source(filepath.Join(dir, "tree"))})
	if got := ask(t, f, "secret.com"); got != nil {
		t.Errorf("file outside the folder was read: got %q", got)
	}
	if !slices.ContainsFunc(rep.Problems, func(p Problem) bool { return strings.HasSuffix(p.File, "tree/out") }) {
		t.Errorf("got %v, want a problem about the link", rep.Problems)
	}
}

func TestGzippedAndBrokenSources(t *testing.T) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	zw.Write([]byte(strings.Repeat("a.com\nb.com\nc.com\n", 1000)))
	zw.Close()
	dir := t.TempDir()
	src := filepath.Join(dir, "list.txt.gz")
	if err := os.WriteFile(src, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	f, rep := compilePath(t, Config{Path: setting.Source(src)})
	if len(ask(t, f, "b.com")) != 1 || rep.Duplicates != 2997 || rep.Entries != 3 {
		t.Errorf("duplicates in one list: got %+v", rep)
	}
	dst := filepath.Join(dir, "own.list")
	for name, data := range map[string][]byte{"cut short": buf.Bytes()[:buf.Len()-9], "no gzip": []byte("\x1f\x8bnonsense")} {
		if err := os.WriteFile(src, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(context.Background(), "own", Config{Path: setting.Source(src)}, dst); err == nil {
			t.Errorf("%s: compiled, want an error", name)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Errorf("%s: Compile failed but wrote a list", name)
		}
	}
	if _, err := Compile(context.Background(), "own", Config{Format: UT1, Path: setting.Source(src)}, dst); err == nil {
		t.Error("format ut1 accepted a plain file")
	}
	if _, err := Compile(context.Background(), "own", Config{Format: Hosts, Path: setting.Source(dir)}, dst); err == nil {
		t.Error("format hosts accepted a folder")
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if len(left) > 0 {
		t.Errorf("Compile left temporary files: %q", left)
	}
}

// TestWhatIsForPeopleInAnArchiveIsNoList: in archives of trees, and of files of one format, where each
// other file is part of the list.
func TestWhatIsForPeopleInAnArchiveIsNoList(t *testing.T) {
	prose := []byte("see readme.example\nreadme.example\n0.0.0.0 readme.example\n")
	about := []string{"README", "readme.md", "COPYING", "CATEGORIES", "LICENSE.txt", "global_usage", "ads/README"}
	for _, tt := range []struct {
		format FormatName
		file   string
		text   string
	}{
		{UT1, "ads/domains", "ads.example\n"}, {Auto, "ads/domains", "ads.example\n"}, {Domains, "one", "ads.example\n"}, {Hosts, "one.txt", "0.0.0.0 ads.example\n"}, {Adblock, "one.txt", "||ads.example^\n"},
	} {
		t.Run(string(tt.format), func(t *testing.T) {
			all := map[string][]byte{tt.file: []byte(tt.text)}
			for _, name := range about {
				all[name] = prose
			}
			file := filepath.Join(t.TempDir(), "list.zip")
			if err := os.WriteFile(file, zipped(t, all), 0o600); err != nil {
				t.Fatal(err)
			}
			f, r := compilePath(t, Config{Format: tt.format, Path: setting.Source(file)})
			if r.Bad > 0 || len(r.Sources) != 1 {
				t.Errorf("%d bad lines, sources %v; want those of %s alone", r.Bad, r.Sources, tt.file)
			}
			if matchingEntry(t, f, "http://ads.example/") == "" || matchingEntry(t, f, "http://readme.example/") != "" {
				t.Error("the entry of the list does not match, or one of a file about it does")
			}
		})
	}
}
