package collection

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/source"
)

// twoLists has a list of a file with one host, and a fetched one, in a data folder.
func twoLists(t *testing.T) (cfg Config, data string, srv *server) {
	data, srv = t.TempDir(), serve(t)
	file := filepath.Join(t.TempDir(), "own.txt")
	write(t, file, []byte("first.example\n"))
	srv.content = []byte("fetched.example\nanother.example\n")
	return Config{
		"own":  {Config: list.Config{Format: list.Domains, Path: setting.Source(file), Category: "own"}},
		"feed": {Config: list.Config{Format: list.Domains, Category: "feed"}, Fetch: source.Config{URL: []string{srv.URL + "/feed"}}},
	}, data, srv
}

func client() *http.Client {
	return source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext)
}

// hits returns the lists that have a host.
func hits(t *testing.T, c *Collection, host string) (lists []string) {
	t.Helper()
	all, err := c.Search(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		lists = append(lists, h.List)
	}
	return lists
}

func TestChanges(t *testing.T) {
	cfg, data, _ := twoLists(t)
	open := func() *Collection {
		t.Helper()
		c, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	add := func(entry string) []list.Change { return []list.Change{{Entry: entry}} }
	refused := errors.New("refused")
	for _, c := range []struct {
		name    string
		changes map[string][]list.Change
		use     error  // of the one who takes the changes
		want    error  // of the change; errors.As for a *BadChange
		host    string // is in the list own afterwards, or is not
		in      bool
	}{
		{"an addition", map[string][]list.Change{"own": add("second.example")}, nil, nil, "second.example", true},
		{"a removal", map[string][]list.Change{"own": {{Entry: "first.example", Remove: true}}}, nil, nil, "first.example", false},
		{"none", nil, nil, nil, "second.example", true},
		{"an unknown list", map[string][]list.Change{"none": add("third.example"), "own": add("third.example")}, nil, ErrNoList, "third.example", false},
		{"a bad entry after a good one", map[string][]list.Change{"feed": add("third.example"), "own": {{Entry: "third.example"}, {Entry: "a b"}}}, nil, new(BadChange), "third.example", false},
		{"a change that is not taken", map[string][]list.Change{"own": add("third.example")}, refused, refused, "third.example", false},
		{"a change that is taken back keeps those before", nil, refused, refused, "second.example", true},
	} {
		used := false
		err := open().Change(t.Context(), c.changes, func() error {
			used = true
			return c.use
		})
		bad := (*BadChange)(nil)
		switch want := c.want.(type) {
		case nil:
			if err != nil || !used {
				t.Errorf("%s: error %v, used %v", c.name, err, used)
			}
		case *BadChange:
			if !errors.As(err, &bad) || used {
				t.Errorf("%s: error %v (%T), used %v; want a bad change", c.name, err, err, used)
			}
		default:
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", c.name, err, want)
			}
		}
		if got := hits(t, open(), c.host); (len(got) > 0) != c.in {
			t.Errorf("%s: %s is in the lists %q, want in own: %v", c.name, c.host, got, c.in)
		}
	}
}

// TestTrialsLeaveTheListsAlone: what was tried is seen by the trial alone.
func TestTrialsLeaveTheListsAlone(t *testing.T) {
	cfg, data, _ := twoLists(t)
	real, err := update(t, cfg, data, "feed")
	if err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "newer")
	write(t, newer, []byte("newer.example\n"))
	before := filesIn(t, data)
	for _, c := range []struct {
		name string
		try  func(context.Context, *Collection) error
		host string // in the trial
		bad  bool
	}{
		{"a change", func(ctx context.Context, c *Collection) error {
			return c.TryChanges(ctx, map[string][]list.Change{"own": {{Entry: "tried.example"}}})
		}, "tried.example", false},
		{"a bad change", func(ctx context.Context, c *Collection) error {
			return c.TryChanges(ctx, map[string][]list.Change{"own": {{Entry: "a b"}}})
		}, "", true},
		{"a change of no list", func(ctx context.Context, c *Collection) error {
			return c.TryChanges(ctx, map[string][]list.Change{"none": {{Entry: "tried.example"}}})
		}, "", true},
		{"a version", func(ctx context.Context, c *Collection) error { return c.TryVersion(ctx, "feed", newer) }, "newer.example", false},
		{"a version that is nowhere", func(ctx context.Context, c *Collection) error { return c.TryVersion(ctx, "feed", newer+"x") }, "", true},
	} {
		var failed error
		tried, err := Try(t.Context(), cfg, data, func(of *Collection) { failed = c.try(t.Context(), of) }, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if (failed != nil) != c.bad {
			t.Errorf("%s: got the error %v, want one: %v", c.name, failed, c.bad)
		}
		if c.host != "" && (len(hits(t, tried, c.host)) == 0 || len(hits(t, real, c.host)) > 0) {
			t.Errorf("%s: %s is in %q of the trial and in %q of the real lists", c.name, c.host, hits(t, tried, c.host), hits(t, real, c.host))
		}
	}
	if after := filesIn(t, data); !reflect.DeepEqual(before, after) {
		t.Errorf("trials changed the files of the data folder: before %v, after %v", before, after)
	}
}

// filesIn returns the names and sizes of the files in a folder.
func filesIn(t *testing.T, dir string) map[string]int64 {
	all := map[string]int64{}
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all[file] = info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestVersionsOfAFetchedList: a newer one is looked at, taken, and taken back.
func TestVersionsOfAFetchedList(t *testing.T) {
	cfg, data, srv := twoLists(t)
	c, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	view, err := Look(cfg, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !view.Missing("feed") || view.Missing("own") || !c.Missing("feed") {
		t.Error("a list that was not fetched is not missing, or one of a file is")
	}
	if p := problem.Texts(c.Problems()); len(p) != 1 || !strings.Contains(p[0], "list feed: not fetched yet") {
		t.Errorf("the problems of a list that was not fetched are %q", p)
	}
	if _, err := c.Lint(t.Context(), "feed"); err == nil || !strings.Contains(err.Error(), "not been fetched") {
		t.Errorf("Lint of a list that was not fetched: %v", err)
	}
	if _, err := c.OlderVersion("feed"); err == nil {
		t.Error("a list that was not fetched has an older version")
	}
	if c, err = update(t, cfg, data, "feed"); err != nil {
		t.Fatal(err)
	}
	s, err := c.StatusOf("feed")
	if err != nil || !s.Fetched || s.Missing || s.URL != srv.URL+"/feed" || s.Report.Entries != 2 {
		t.Errorf("StatusOf(feed): %+v, error %v", s, err)
	}
	if lint, err := c.Lint(t.Context(), "feed"); err != nil || lint == nil {
		t.Errorf("Lint: %v", err)
	}
	srv.content = []byte("fetched.example\nanother.example\nthird.example\n")
	var seen string
	found, err := c.Newer(t.Context(), client(), "feed", func(file string) error {
		text, err := os.ReadFile(file)
		seen = string(text)
		return err
	})
	if err != nil || !found || seen != string(srv.content) {
		t.Errorf("Newer: found %v, error %v, shown %q", found, err, seen)
	}
	if len(hits(t, c, "third.example")) > 0 {
		t.Error("a version that was only looked at is in use")
	}
	if c, err = update(t, cfg, data, "feed"); err != nil || len(hits(t, c, "third.example")) != 1 {
		t.Fatalf("the newer version is not in use: %v", err)
	}
	older, err := c.OlderVersion("feed")
	if text, _ := os.ReadFile(older); err != nil || string(text) != "fetched.example\nanother.example\n" {
		t.Errorf("OlderVersion: %q, error %v", text, err)
	}
	if _, err := c.Rollback("feed"); err != nil {
		t.Fatal(err)
	}
	if c, _ = update(t, cfg, data); len(hits(t, c, "third.example")) > 0 || len(hits(t, c, "fetched.example")) != 1 {
		t.Error("the version before is not in use")
	}
	var out strings.Builder
	if c.Print(&out); !strings.Contains(out.String(), "list feed: 2 entries") {
		t.Errorf("Print writes %q", out.String())
	}
}

// TestOnlyFetchedListsHaveVersions: of others, and of none, there is nothing to fetch or take back.
func TestOnlyFetchedListsHaveVersions(t *testing.T) {
	cfg, data, _ := twoLists(t)
	c, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	look := func(string) error {
		t.Error("a version is shown")
		return nil
	}
	for name, ask := range map[string]func(list string) error{
		"Update":       func(list string) error { _, err := c.Update(t.Context(), client(), list); return err },
		"Rollback":     func(list string) error { _, err := c.Rollback(list); return err },
		"Newer":        func(list string) error { _, err := c.Newer(t.Context(), client(), list, look); return err },
		"OlderVersion": func(list string) error { _, err := c.OlderVersion(list); return err },
	} {
		if err := ask("none"); !errors.Is(err, ErrNoList) {
			t.Errorf("%s of an unknown list: got %v, want ErrNoList", name, err)
		}
		if err := ask("own"); !errors.Is(err, errNotFetched) {
			t.Errorf("%s of a list of a file: got %v, want errNotFetched", name, err)
		}
	}
	if _, err := c.Lint(t.Context(), "none"); !errors.Is(err, ErrNoList) {
		t.Errorf("Lint of an unknown list: got %v, want ErrNoList", err)
	}
	if lint, err := c.Lint(t.Context(), "own"); err != nil || lint == nil {
		t.Errorf("Lint: %v", err)
	}
}

// TestTheListOfAZone has the zone alone as its source.
func TestTheListOfAZone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zone")
	write(t, file, []byte("$ORIGIN rpz.example.\n@ 60 SOA a. b. 1 1 1 1 1\nbad.example CNAME .\n"))
	for _, c := range []struct {
		name string
		list List
		want string // in the error; "" for none
	}{
		{"a zone", List{Zone: "rpz.example", ZoneFile: file, Config: list.Config{Category: "feed"}}, ""},
		{"its format", List{Zone: "rpz.example", ZoneFile: file, Config: list.Config{Category: "feed", Format: list.RPZ}}, ""},
		{"another format", List{Zone: "rpz.example", ZoneFile: file, Config: list.Config{Format: list.Domains}}, "not the format of a zone"},
		{"a path, too", List{Zone: "rpz.example", ZoneFile: file, Config: list.Config{Path: "a"}}, "only one of"},
		{"a URL, too", List{Zone: "rpz.example", ZoneFile: file, Fetch: source.Config{URL: []string{"http://a.example/"}}}, "only one of"},
		{"a zone that is not fetched", List{Zone: "rpz.example"}, "dns.zones.secondary"},
	} {
		opened, err := Open(t.Context(), Config{"zone": c.list}, t.TempDir(), nil, slog.New(slog.DiscardHandler))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got the error %v, want %q", c.name, err, c.want)
		case c.want == "" && len(hits(t, opened, "bad.example")) != 1:
			t.Errorf("%s: its names are not in the list", c.name)
		}
	}
}

// TestManyAskAtOnce: a collection in use is asked by many at the same time, and none changes what it
// knows of its lists.
func TestManyAskAtOnce(t *testing.T) {
	cfg, data, _ := twoLists(t)
	c, err := update(t, cfg, data, "feed")
	if err != nil {
		t.Fatal(err)
	}
	before := c.Fetched()["feed"]
	if before.InUse == "" {
		t.Fatalf("the list is not in use: %+v", before)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				_, errs := c.StatusOf("feed")
				_, errl := c.Lint(context.Background(), "feed")
				if err := errors.Join(errs, errl); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if after := c.Fetched()["feed"]; after.InUse != before.InUse || after.Damaged != before.Damaged {
		t.Errorf("asking has changed the list in use from %q to %q", before.InUse, after.InUse)
	}
}
