package list

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"shuultuur/lib/setting"
)

// amendable compiles text. It returns the path of the list and a function that opens it again
// and queries it.
func amendable(t testing.TB, cfg Config, text string) (dst string, asks func(url string) []string) {
	t.Helper()
	dir := t.TempDir()
	cfg.Path, dst = setting.Source(filepath.Join(dir, "source")), filepath.Join(dir, "own.list")
	if err := os.WriteFile(string(cfg.Path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(context.Background(), "own", cfg, dst); err != nil {
		t.Fatal(err)
	}
	return dst, func(url string) []string {
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return ask(t, f, url)
	}
}

func TestAmend(t *testing.T) {
	ctx := context.Background()
	dst, asks := amendable(t, Config{}, "a.com\nwww.a.com\nb.com/x\nc.com\n")
	steps := []struct {
		changes []Change
		want    map[string][]string
	}{
		{[]Change{{Entry: "new.com"}, {Entry: "HTTP://n.com/Path/"}}, map[string][]string{"x.new.com": {"own new.com"}, "n.com/path/y": {"own n.com/path"}, "a.com": {"own a.com"}}},
		{[]Change{{Entry: "a.com", Remove: true}, {Entry: "b.com/x", Category: "own", Remove: true}}, map[string][]string{"a.com": nil, "www.a.com": {"own www.a.com"}, "b.com/x": nil, "new.com": {"own new.com"}}},
		{[]Change{{Entry: "new.com", Remove: true}, {Entry: "a.com"}}, map[string][]string{"new.com": nil, "a.com": {"own a.com"}}},
		{[]Change{{Entry: "e.com", Category: "extra", Exact: true}, {Entry: "c.com", Category: "other", Remove: true}}, map[string][]string{"e.com": {"extra e.com"}, "x.e.com": nil, "c.com": {"own c.com"}}},
	}
	for i, s := range steps {
		if err := Amend(ctx, dst, s.changes...); err != nil {
			t.Fatal(err)
		}
		for url, want := range s.want {
			if d := cmp.Diff(want, asks(url)); d != "" {
				t.Errorf("step %d: %s: matches differ (-want +got): %s", i, url, d)
			}
		}
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if d := cmp.Diff([]string{"extra", "own"}, f.Categories()); d != "" {
		t.Errorf("categories after the changes differ (-want +got):\n%s", d)
	}
	var q Query
	q.SetHost("e.com")
	found, err := f.Lookup(&q, nil)
	if err != nil || len(found) != 1 || !strings.Contains(f.Evidence(found[0]), `"e.com" in `+dst+".overlay:") {
		t.Errorf("entry of the overlay: got %v, %v: %s", found, err, f.Evidence(found[0]))
	}
}

// TestARemovalOutlivesTheNextVersion: an addition was merged into the list with a version of it, and what
// removes it with a later one.
func TestARemovalOutlivesTheNextVersion(t *testing.T) {
	for name, category := range map[string]string{"from every category": "", "from its category": "own"} {
		t.Run(name, func(t *testing.T) {
			dst, asks := amendable(t, Config{}, "a.com\n")
			source := filepath.Join(filepath.Dir(dst), "source")
			is := func(when string, change Change, want []string) {
				t.Helper()
				if err := Amend(t.Context(), dst, change); err != nil {
					t.Fatal(err)
				}
				for _, then := range []string{"at once", "with the next version"} {
					if got := asks("new.com"); !slices.Equal(got, want) {
						t.Errorf("%s, %s: %q, want %q", when, then, got, want)
					}
					if err := os.WriteFile(source, []byte("a.com\n"+strings.ReplaceAll(when, " ", "-")+".com\n"), 0o644); err != nil {
						t.Fatal(err)
					}
					if _, err := Compile(t.Context(), "own", Config{Path: setting.Source(source)}, dst); err != nil {
						t.Fatal(err)
					}
				}
				if got := asks("new.com"); !slices.Equal(got, want) {
					t.Errorf("%s, in the end: %q, want %q", when, got, want)
				}
			}
			is("added", Change{Entry: "new.com"}, []string{"own new.com"})
			is("removed", Change{Entry: "new.com", Category: category, Remove: true}, nil)
			is("added again", Change{Entry: "new.com"}, []string{"own new.com"})
			is("removed again", Change{Entry: "new.com", Category: category, Remove: true}, nil)
		})
	}
}

func TestBadChangesChangeNothing(t *testing.T) {
	dst, asks := amendable(t, Config{}, "a.com\n")
	for _, c := range []Change{{Entry: "exa mple"}, {Entry: "com"}, {Entry: ""}, {Entry: "10.0.0.0/8"}, {Entry: "x.com", Category: "\x00y"}} {
		if err := Amend(context.Background(), dst, Change{Entry: "b.com"}, c); err == nil {
			t.Errorf("Amend accepted %+v", c)
		}
	}
	if got := asks("b.com"); got != nil {
		t.Errorf("b.com after a refused change: got %v, want nothing", got)
	}
	if _, err := os.Stat(dst + overlaySuffix); err == nil {
		t.Error("a refused change wrote an overlay")
	}
}

// TestALargeOverlayIsMerged: Compile merges a large overlay into the list, and its changes stay
// when the source changes later.
func TestALargeOverlayIsMerged(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own.list")
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "host%d.com\n", i)
	}
	write(t, dir, map[string]string{"source": text.String()})
	compile := func() Report {
		t.Helper()
		rep, err := Compile(ctx, "own", Config{Path: setting.Source(src)}, dst)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	compile()
	var changes []Change
	for i := range 150 {
		changes = append(changes, Change{Entry: fmt.Sprintf("host%d.com", i), Remove: true}, Change{Entry: fmt.Sprintf("extra%d.com", i)})
	}
	if err := Amend(ctx, dst, changes[:20]...); err != nil {
		t.Fatal(err)
	}
	if rep := compile(); !rep.Reused {
		t.Error("Compile did not reuse the list because of a small overlay")
	}
	if err := Amend(ctx, dst, changes...); err != nil {
		t.Fatal(err)
	}
	if rep := compile(); rep.Reused || rep.Entries != 2000 {
		t.Errorf("Compile with a large overlay: reused %v, %d entries, want 2000 in a new list", rep.Reused, rep.Entries)
	}
	if _, err := os.Stat(dst + overlaySuffix); err == nil {
		t.Error("the overlay still exists after it was merged")
	}
	write(t, dir, map[string]string{"source": text.String() + "later.com\n"})
	if rep := compile(); rep.Entries != 2001 {
		t.Errorf("after a change of the source: got %d entries, want 2001", rep.Entries)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for host, want := range map[string]int{"host7.com": 0, "host149.com": 0, "host150.com": 1, "extra149.com": 1, "later.com": 1} {
		if got := ask(t, f, host); len(got) != want {
			t.Errorf("%s: got %v, want %d", host, got, want)
		}
	}
}

// TestAmendAgreesWithMap makes random changes to a list and to a map.
func TestAmendAgreesWithMap(t *testing.T) {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(5, 5))
	names := []string{"a.com", "b.a.com", "c.b.a.com", "d.com", "d.com/x", "d.com/x/y", "e.net"}
	state := map[string]bool{}
	var text string
	for _, n := range names[:4] {
		text += n + "\n"
		state[n] = true
	}
	dst, asks := amendable(t, Config{Format: Domains}, text)
	for range 60 {
		n := names[rnd.IntN(len(names))]
		c := Change{Entry: n, Remove: rnd.IntN(2) == 0}
		if rnd.IntN(2) == 0 {
			c.Category = "own"
		}
		if err := Amend(ctx, dst, c); err != nil {
			t.Fatal(err)
		}
		state[n] = !c.Remove
		for _, url := range []string{"x.c.b.a.com", "d.com/x/y/z", "e.net"} {
			var want []string
			for n, in := range state {
				host, path, _ := strings.Cut(n, "/")
				asked, rest, _ := strings.Cut(url, "/")
				if in && ("."+asked == "."+host || strings.HasSuffix(asked, "."+host)) && (path == "" || strings.HasPrefix(rest+"/", path+"/")) {
					want = append(want, "own "+n)
				}
			}
			got := slices.Compact(slices.Sorted(slices.Values(asks(url))))
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("%s after %+v: got %v, want %v", url, c, got, want)
			}
		}
	}
}

// TestAmendAtOnce: concurrent changes of one list lose nothing.
func TestAmendAtOnce(t *testing.T) {
	dst, asks := amendable(t, Config{}, "a.com\n")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := Amend(context.Background(), dst, Change{Entry: fmt.Sprintf("n%d.com", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		if got := asks(fmt.Sprintf("n%d.com", i)); len(got) != 1 {
			t.Errorf("n%d.com: got %v, want one match", i, got)
		}
	}
}

func TestLongestDecides(t *testing.T) {
	for longest, want := range map[bool]bool{false: true, true: false} {
		f, _ := compileText(t, Config{Format: Adblock, Longest: longest}, "@@||a.com^\n||bad.a.com^\n||a.com^\n||sure.a.com^$important\n")
		var q Query
		q.SetHost("x.bad.a.com")
		found, err := f.Lookup(&q, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found {
			if m.Exception {
				continue
			}
			wanted := want || m.size == 5 // a.com itself is no longer than its exception
			if got := ExceptionFor(found, &m) != nil; got != wanted {
				t.Errorf("longest %v: exception from %s: got %v", longest, f.Evidence(m), got)
			}
		}
		q.SetHost("sure.a.com")
		if found, err = f.Lookup(&q, nil); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(m Match) bool { return m.Important && ExceptionFor(found, &m) == nil }) {
			t.Error("an exception applied to an important entry")
		}
	}
}

// FuzzAmend: entries as people type them.
func FuzzAmend(f *testing.F) {
	f.Add("a.com", "b.com/x", "")
	f.Add("*.a.com", "http://[::1]:80/", "own")
	f.Add(".com", "10.1.1.1", "new")
	f.Fuzz(func(t *testing.T, add, remove, category string) {
		for _, match := range []string{Boundary, Prefix} {
			host, path, err := parseEntry(add, match)
			if err != nil {
				continue
			}
			h2, p2, err := parseEntry(host+path, match)
			if err == nil && !strings.Contains(path, "%") && (h2 != host || p2 != path) {
				t.Errorf("entry %q was read as %q %q, and that as %q %q", add, host, path, h2, p2)
			}
		}
	})
}
