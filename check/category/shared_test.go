package category

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/test/race"
)

// A testList is the settings and the content of a list.
type testList struct {
	name string
	cfg  list.Config
	text string
}

var ads = list.Config{Format: list.Adblock, Category: "ads"}

func checkOver(t *testing.T, lists []testList) *Check {
	t.Helper()
	files, cfg := map[string]*list.File{}, Config{}
	for _, l := range lists {
		files[l.name] = compile(t, l.name, l.cfg, l.text)
		cfg.Lists = append(cfg.Lists, l.name)
	}
	c, err := New(cfg, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// describe formats findings: "ads", "ads removeparam=x", and "-ads" for a match that an
// exception lifts.
func describe(found []filter.Finding) string {
	var all []string
	for _, f := range found {
		switch {
		case f.Check == Exception:
			all = append(all, "-"+f.Category)
		case f.Modifier != "":
			all = append(all, f.Category+" "+f.Modifier)
		default:
			all = append(all, f.Category)
		}
	}
	return strings.Join(all, ", ")
}

// findAll returns the findings for a page, for a tunnel that is not decrypted, and for a name.
func findAll(t *testing.T, c *Check, url string) (page, tunnel, name string) {
	t.Helper()
	host, path, _ := strings.Cut(url, "/")
	find := func(tr *filter.Transaction, s filter.Stage) []filter.Finding {
		found, err := c.Find(context.Background(), tr, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.Findings = append(tr.Findings, found...)
		return tr.Findings
	}
	tr := &filter.Transaction{Host: host, URL: "https://" + url, Last: filter.ResponseBody}
	find(tr, filter.Name)
	tr.Request = &message.Request{Method: "GET", Path: []byte("/" + path)}
	if filepath.Ext(path) == "" {
		tr.Request.Add("Accept", "text/html")
	}
	return describe(find(tr, filter.Request)),
		describe(find(&filter.Transaction{Host: host, Last: filter.Name}, filter.Name)),
		describe(find(&filter.Transaction{Proto: filter.DNS, Type: 1, Host: host, Last: filter.Name}, filter.Name))
}

func TestListsOfOneCategoryAreOneEngine(t *testing.T) {
	rows := list.Config{Format: "json"}
	for _, tt := range []struct {
		name               string
		lists              []testList
		url                string
		page, tunnel, dnsq string
	}{
		{"an exception in another list", []testList{{"a", ads, "||x.com^"}, {"b", ads, "@@||x.com^"}}, "www.x.com/", "-ads", "-ads", "-ads"},
		{"in a list before", []testList{{"b", ads, "@@||x.com^"}, {"a", ads, "||x.com^"}}, "www.x.com/", "-ads", "-ads", "-ads"},
		{"of another category", []testList{{"a", ads, "||x.com^"}, {"b", list.Config{Format: list.Adblock}, "@@||x.com^"}}, "x.com/", "ads", "ads", "ads"},
		{"from a list of hosts", []testList{{"a", list.Config{Format: list.Hosts, Category: "ads"}, "0.0.0.0 x.com"}, {"b", ads, "@@||x.com^"}}, "x.com/", "-ads", "-ads", "-ads"},
		{"in a list of records", []testList{{"a", ads, "||x.com^\n/banner/"}, {"ads", rows, `{"entry": "x.com", "exception": true}`}}, "x.com/banner/a.js", "-ads, -ads", "-ads", "-ads"},
		{"in records of a category of theirs", []testList{{"a", ads, "||x.com^"}, {"b", rows, `{"entry": "x.com", "exception": true, "category": "ads"}`}}, "x.com/", "ads", "ads", "ads"},
		{"that are given one in the settings", []testList{{"a", ads, "||x.com^"}, {"b", list.Config{Format: "json", Category: "ads"}, `{"entry": "x.com", "exception": true, "category": "adult"}`}}, "x.com/", "-ads", "-ads", "-ads"},
		{"from a list that has more than hosts", []testList{{"a", list.Config{Format: list.Domains, Category: "ads"}, "x.com\nx.com/y"}, {"b", ads, "@@||x.com^"}}, "x.com/y", "-ads, -ads", "-ads", "-ads"},

		{"an exception that depends on the request", []testList{{"a", list.Config{Format: list.Hosts, Category: "ads"}, "0.0.0.0 x.com"}, {"b", ads, "@@||x.com/ok"}}, "x.com/ok.js", "-ads", "ads", "ads"},
		{"and is for another", []testList{{"a", list.Config{Format: list.Hosts, Category: "ads"}, "0.0.0.0 x.com"}, {"b", ads, "@@||x.com/ok"}}, "x.com/no.js", "ads", "ads", "ads"},
		{"from a rule", []testList{{"a", ads, "/banner/"}, {"b", ads, "@@||x.com/*/good$script"}}, "x.com/banner/good.js", "-ads", "", ""},
		{"that is an entry, from a rule", []testList{{"a", ads, "/banner/"}, {"b", list.Config{Format: list.RPZ, Category: "ads"}, "x.com CNAME rpz-passthru."}}, "x.com/banner/a.js", "-ads", "", ""},
		{"for names", []testList{{"a", ads, "||x.com^"}, {"b", ads, "@@||x.com^$dnstype=A"}}, "x.com/", "ads", "ads", "-ads"},
		{"while another category is certain", []testList{{"a", ads, "||x.com^"}, {"adult", list.Config{}, "x.com"}, {"b", ads, "@@||x.com/"}}, "x.com/a.js", "adult, -ads", "ads, adult", "ads, adult"},

		{"important", []testList{{"a", ads, "||x.com^$important"}, {"b", ads, "@@||x.com^"}}, "x.com/", "ads", "ads", "ads"},
		{"an important exception", []testList{{"a", ads, "||x.com^$important"}, {"b", ads, "@@||x.com^$important"}}, "x.com/", "-ads", "-ads", "-ads"},
		{"denyallow is for its rule", []testList{{"a", ads, "||com^$denyallow=x.com"}, {"b", ads, "||x.com^"}}, "x.com/", "ads", "ads", "ads"},

		{"badfilter", []testList{{"a", ads, "||x.com^"}, {"b", ads, "||x.com^$badfilter"}}, "x.com/", "", "", ""},
		{"badfilter of a rule", []testList{{"a", ads, "||x.com/y$script,image"}, {"b", ads, "||x.com/y$image,badfilter,script"}}, "x.com/y.js", "", "", ""},
		{"badfilter of another rule with the pattern", []testList{{"a", ads, "||x.com/y$script"}, {"b", ads, "||x.com/y$image,badfilter"}}, "x.com/y.js", "ads", "", ""},
		{"badfilter of an exception", []testList{{"a", ads, "||x.com^"}, {"b", ads, "@@||x.com^"}, {"c", ads, "@@||x.com^$badfilter"}}, "x.com/", "ads", "ads", "ads"},
		{"badfilter of an exception that is a rule", []testList{{"a", ads, "||x.com^"}, {"b", ads, "@@||x.com/ok"}, {"c", ads, "@@||x.com/ok$badfilter"}}, "x.com/ok", "ads", "ads", "ads"},
		{"badfilter of an expression with $", []testList{{"a", ads, `/\.gif$/`}, {"b", ads, `/\.gif$/$badfilter`}}, "x.com/y.gif", "", "", ""},
		{"badfilter of another category", []testList{{"a", ads, "||x.com^"}, {"b", list.Config{Format: list.Adblock}, "||x.com^$badfilter"}}, "x.com/", "ads", "ads", "ads"},

		{"parameters", []testList{{"a", ads, "$removeparam=p"}, {"b", ads, "@@||x.com^$removeparam=p"}}, "x.com/?p=1", "", "", ""},
		{"parameters, another category", []testList{{"a", ads, "$removeparam=p"}, {"b", list.Config{Format: list.Adblock}, "@@||x.com^$removeparam=p"}}, "x.com/?p=1", "removeparam removeparam=p", "", ""},
		{"parameters, badfilter", []testList{{"a", ads, "$removeparam=p\n$removeparam=q"}, {"b", ads, "$removeparam=p,badfilter"}}, "x.com/?p=1&q=2", "removeparam removeparam=q", "", ""},
		{"parameters of two lists", []testList{{"a", ads, "$removeparam=p"}, {"b", ads, "$removeparam=q"}}, "x.com/?p=1&q=2", "removeparam removeparam=p&q", "", ""},
	} {
		page, tunnel, name := findAll(t, checkOver(t, tt.lists), tt.url)
		if page != tt.page || tunnel != tt.tunnel || name != tt.dnsq {
			t.Errorf("%s: %s found %q for the page, %q for the tunnel, %q for the name; want %q, %q, %q", tt.name, tt.url, page, tunnel, name, tt.page, tt.tunnel, tt.dnsq)
		}
	}
}

func TestExceptionsAreNamedWithTheirPlace(t *testing.T) {
	c := checkOver(t, []testList{{"ads", ads, "! x\n||x.com^"}, {"more", ads, "||com^"}, {"allow", ads, "! y\n!\n@@||x.com^"}})
	found, err := c.Find(context.Background(), &filter.Transaction{Host: "x.com", Last: filter.Name}, filter.Name, nil)
	if err != nil || len(found) != 1 {
		t.Fatalf("looking up x.com: got %v, %v, want one finding", found, err)
	}
	got := folder.ReplaceAllString(found[0].Evidence, " in ")
	want := `"x.com" in ads.txt:2, lifted by "x.com" in allow.txt:3; "com" in more.txt:1, lifted by "x.com" in allow.txt:3`
	if got != want {
		t.Errorf("the evidence is %s\nwant %s", got, want)
	}
}

// An entry added to a list at run time also applies to the others.
func TestAnExceptionAddedLaterIsForAllListsOfItsCategory(t *testing.T) {
	dir := t.TempDir()
	lists := map[string]*list.File{"a": compile(t, "a", ads, "||x.com^"), "adult": compile(t, "adult", list.Config{}, "x.com")}
	source, own := filepath.Join(dir, "own.txt"), filepath.Join(dir, "own.list")
	if err := os.WriteFile(source, []byte("||y.com^\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := list.Compile(context.Background(), "own", list.Config{Format: list.Adblock, Category: "ads", Path: setting.Source(source)}, own); err != nil {
		t.Fatal(err)
	}
	find := func() string {
		f, err := list.Open(own)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lists["own"] = f
		c, err := New(Config{Lists: []string{"a", "adult", "own"}}, lists)
		if err != nil {
			t.Fatal(err)
		}
		page, tunnel, name := findAll(t, c, "www.x.com/")
		if page != tunnel || page != name {
			t.Errorf("found %q for the page, %q for the tunnel, %q for the name; want the same", page, tunnel, name)
		}
		return page
	}
	if got := find(); got != "ads, adult" {
		t.Errorf("before the exception: found %q", got)
	}
	if err := list.Amend(context.Background(), own, list.Change{Entry: "x.com", Exception: true}); err != nil {
		t.Fatal(err)
	}
	if got := find(); got != "-ads, adult" {
		t.Errorf("after adding the exception: found %q", got)
	}
	if err := list.Amend(context.Background(), own, list.Change{Entry: "x.com", Remove: true}); err != nil {
		t.Fatal(err)
	}
	if got := find(); got != "ads, adult" {
		t.Errorf("after removing the exception: found %q", got)
	}
}

func TestExceptionsOfOthersAllocateNothing(t *testing.T) {
	c := checkOver(t, []testList{{"a", ads, "||x.com^\n||ads*.y.com^\n||z.com^\n"}, {"b", ads, "@@||x.com^\n@@||ads1.y.com^$dnstype=A\n||other.com^$badfilter\n||bad*.y.com^$badfilter\n"}})
	for host, want := range map[string]int{"www.x.com": 0, "ads1.y.com": 0, "ads2.y.com": 1, "z.com": 1, "harmless.org": 0} {
		tr := &filter.Transaction{Proto: filter.DNS, Type: 1, Host: host, Last: filter.Name, Terse: true}
		var found []filter.Finding
		var err error
		n := testing.AllocsPerRun(200, func() {
			found, err = c.Find(context.Background(), tr, filter.Name, found[:0])
		})
		if err != nil || len(found) != want {
			t.Errorf("%s: found %+v, %v; want %d findings", host, found, err, want)
		}
		if n > 0 && !race.On {
			t.Errorf("%s: a lookup allocates %v times, want 0", host, n)
		}
	}
}
