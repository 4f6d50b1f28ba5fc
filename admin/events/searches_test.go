package events_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/search"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/event"
)

func TestASearchIsSavedFollowedAndRemoved(t *testing.T) {
	h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: "0123456789abcdef"},
		Events: &web.Record{Reader: &admintest.Fake{Rows: []event.Row{{}}}}, Searches: &search.Book{File: filepath.Join(t.TempDir(), "a", "searches.json")}})
	shows := func(path string, want bool, text string) {
		t.Helper()
		if w := admintest.Ask(h, "GET", path, "text/html", ""); strings.Contains(w.Body.String(), text) != want {
			t.Errorf("%s: status %d, contains %q: %v\n%s", path, w.Code, text, !want, w.Body)
		}
	}
	shows("/events", true, "Filter the record first")
	shows("/events?filter=action:block", true, "Save this search")
	if w := admintest.Ask(h, "POST", "/events/searches", "text/html", "name=refused+<b>&filter=action:block&last=7d"); w.Code != 303 || w.Header().Get("Location") != "/events?filter=action%3Ablock&last=7d" {
		t.Errorf("saving a search: status %d, redirected to %s", w.Code, w.Header().Get("Location"))
	}
	shows("/events", true, `<a href="/events?filter=action%3Ablock&amp;last=7d"><bdi>refused &lt;b&gt;</bdi></a>`)
	if w := admintest.Ask(h, "POST", "/events/searches", "", "name=x&filter=action:dance"); w.Code != 400 {
		t.Errorf("saving a wrong filter: status %d, want 400", w.Code)
	}
	admintest.Ask(h, "POST", "/events/searches", "text/html", "name=refused+<b>")
	shows("/events", false, "refused")
}
