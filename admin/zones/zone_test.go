//go:build !small

package zones_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/zone/authority"
)

// A page is the form of the page of a zone for programs.
type page struct {
	authority.Summary
	authority.State
	Lines     []string
	Text, Tag string
	List      []authority.Record
	Matches   int
	Next      *struct{ After int }
}

// perPage is how many records one page has.
const perPage = 200

func TestZonesAreShownAndTheirFilesChanged(t *testing.T) {
	p := admintest.Nobody()
	p.Zones = admintest.ZoneOf(t, "example.test.", admintest.FirstZone)
	h := admin.New(p)
	if w := admintest.Ask(h, "GET", "/zones", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `href="/zones/example.test.?view="`) || !strings.Contains(w.Body.String(), "served") {
		t.Errorf("the list of zones: status %d, %s", w.Code, w.Body)
	}
	get := func() (d page) {
		t.Helper()
		w := admintest.Ask(h, "GET", "/zones/Example.test", "application/json", "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); w.Code != 200 || err != nil {
			t.Fatalf("GET of a zone: status %d, %v, %s", w.Code, err, w.Body)
		}
		return d
	}
	d := get()
	if d.Serial != 1 || d.From != "file" || d.Signed || d.Text != admintest.FirstZone || len(d.Lines) != 4 || !strings.HasPrefix(d.Lines[0], "example.test.\t300\tIN\tSOA") {
		t.Errorf("the zone is %+v", d)
	}
	if w := admintest.Ask(h, "GET", "/zones/other.test", "application/json", ""); w.Code != 404 {
		t.Errorf("GET of an unknown zone: status %d, want 404", w.Code)
	}
	raised := strings.Replace(admintest.FirstZone, " 1 3600", " 2 3600", 1) + "new A 192.0.2.3\n"
	for _, c := range []struct {
		name, text, tag string
		status          int
		says            string
	}{
		{"a mistake", admintest.FirstZone + "bad A 192.0.2.300\n", d.Tag, 400, "a.zone:6"},
		{"another origin", strings.ReplaceAll(admintest.FirstZone, "@", "elsewhere.test."), d.Tag, 400, ""},
		{"the same serial", admintest.FirstZone + "new A 192.0.2.3\n", d.Tag, 400, "raise it"},
		{"changed meanwhile", raised, "old", 412, ""},
		{"better", raised, d.Tag, 200, ""},
	} {
		form := url.Values{"text": {strings.ReplaceAll(c.text, "\n", "\r\n")}, "tag": {c.tag}}.Encode()
		if w := admintest.Ask(h, "POST", "/zones/example.test.", "application/json", form); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: status %d, %s", c.name, w.Code, w.Body)
		}
		want := admintest.FirstZone
		if c.status == http.StatusOK {
			want = raised
		}
		if got := get().Text; got != want {
			t.Errorf("%s: the file is %q", c.name, got)
		}
	}
	form := url.Values{"text": {"nonsense <b>"}, "tag": {get().Tag}}.Encode()
	if w := admintest.Ask(h, "POST", "/zones/example.test.", "text/html", form); w.Code != 400 || !strings.Contains(w.Body.String(), "nonsense &lt;b&gt;</textarea>") {
		t.Errorf("a refused text is not in the form: status %d, %s", w.Code, w.Body)
	}
}

func TestRecordsOfAZoneArePaged(t *testing.T) {
	var b strings.Builder
	b.WriteString(admintest.FirstZone)
	for n := range 2*perPage + 7 {
		fmt.Fprintf(&b, "node%d A 192.0.2.%d\n", n, n%250)
	}
	p := admintest.Nobody()
	p.Zones = admintest.ZoneOf(t, "example.test.", b.String())
	h := admin.New(p)
	seen, after := map[string]bool{}, 0
	for pages := 1; ; pages++ {
		var d page
		w := admintest.Ask(h, "GET", fmt.Sprintf("/zones/example.test?q=node&after=%d", after), "application/json", "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || len(d.List) == 0 || len(d.List) > perPage || d.Matches != 2*perPage+7 {
			t.Fatalf("after %d: %v, %d of %d records", after, err, len(d.List), d.Matches)
		}
		for _, r := range d.List {
			seen[r.Name] = true
		}
		if d.Next == nil {
			if pages != 3 || len(seen) != d.Matches {
				t.Errorf("%d pages have %d records", pages, len(seen))
			}
			break
		}
		after = d.Next.After
	}
	page := admintest.Ask(h, "GET", "/zones/example.test?q=node&after=200", "text/html", "").Body.String()
	for _, want := range []string{`&amp;q=node&amp;after=0">1–200</a>`, `&amp;q=node&amp;after=400">401–407</a>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the second page has no %s", want)
		}
	}
	if w := admintest.Ask(h, "GET", "/zones/example.test?after=-9999999999999999999", "text/html", ""); w.Code != 200 {
		t.Errorf("a place that is no number: %d", w.Code)
	}
}
