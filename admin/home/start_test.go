package home_test

import (
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/home"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
)

func TestTheStartPageNamesWhatIsBlockedMost(t *testing.T) {
	p := admintest.Nobody()
	f := admintest.Fake{Name: "bet.example"}
	p.Events, p.Live = &web.Record{Reader: &f}, &home.Live{}
	p.Health = func() system.Health { return system.Health{Problems: []string{"the list <own> is old"}} }
	h := admin.New(p)
	page := admintest.Ask(h, "GET", "/", "text/html", "").Body.String()
	for _, want := range []string{"bet.example", "the list &lt;own&gt; is old", `action:block`, "no requests yet"} {
		if !strings.Contains(page, want) {
			t.Errorf("the start page lacks %q", want)
		}
	}
	if w := admintest.Ask(h, "GET", "/overview", "", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"moments"`) {
		t.Errorf("/overview: status %d, %s", w.Code, w.Body)
	}
}

func TestTheStartPageNamesKindsAsPeopleSayThem(t *testing.T) {
	p := admintest.Nobody()
	p.Events, p.Live = &web.Record{Reader: &admintest.Fake{Name: "bonus"}}, &home.Live{}
	page := admintest.Ask(admin.New(p), "GET", "/", "text/html", "").Body.String()
	_, kinds, _ := strings.Cut(page, `aria-label="Kinds"`)
	kinds, _, _ = strings.Cut(kinds, "</section>")
	if !strings.Contains(kinds, "<bdi>More time</bdi>") || !strings.Contains(kinds, "category%3abonus") {
		t.Errorf("the kinds are %q", kinds)
	}
}

func TestTheStartPageSaysWhatIsLowOnTheMachine(t *testing.T) {
	p := admintest.Nobody()
	p.Remarks = func() []home.Remark {
		return []home.Remark{{About: "open files", Found: "1024", Wanted: "65536", Why: "They run out.", Mend: []string{"ulimit -n 65536"}}}
	}
	page := admintest.Ask(admin.New(p), "GET", "/", "text/html", "").Body.String()
	for _, want := range []string{"Warnings about this machine: 1", "open files: 1024", "65536", "They run out.", "ulimit -n 65536"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	p.Remarks = func() []home.Remark { return nil }
	if page := admintest.Ask(admin.New(p), "GET", "/", "text/html", "").Body.String(); strings.Contains(page, "this machine") {
		t.Error("the page warns about a machine that is fine")
	}
}
