package lists_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/lists"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
)

// TestThePageOfAList tests that the page shows the source and odd lines of a list, fetches a
// newer version, and returns to the previous one.
func TestThePageOfAList(t *testing.T) {
	var text atomic.Value
	text.Store("one.example\ntwo.example\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(text.Load().(string))) }))
	defer server.Close()
	dir := t.TempDir()
	own := filepath.Join(dir, "own.txt")
	if err := os.WriteFile(own, []byte("bet.example\nwww.bet.example\nbet.example\nnot a host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := collection.Config{
		"own": {Config: list.Config{Format: list.Domains, Path: setting.Source(own), Category: "gambling"}},
		"web": {Config: list.Config{Format: list.Domains, Category: "ads"}, Fetch: source.Config{URL: []string{server.URL + "/list"}}},
	}
	open := func() *collection.Collection {
		c, err := collection.Open(t.Context(), cfg, dir, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	in, used := open(), 0
	lists := (&lists.Lists{In: func() (*collection.Collection, *http.Client) { return in, server.Client() }}).ShowLists()
	lists.Use = func(context.Context, string) bool { in, used = open(), used+1; return true }
	record := &admintest.Fake{Rows: []event.Row{{}}}
	h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: "0123456789abcdef"}, Lists: lists, Events: &web.Record{Reader: record}})
	shows := func(method, path, form string, want ...string) {
		t.Helper()
		w := admintest.Ask(h, method, path, "text/html", form)
		for _, s := range want {
			if !strings.Contains(w.Body.String(), s) {
				t.Errorf("%s %s %s: status %d, want %q in\n%s", method, path, form, w.Code, s, w.Body)
			}
		}
	}
	shows("GET", "/lists", "", "not fetched yet", "your own file")
	shows("GET", "/lists/own", "", own+":4", "blocked in the last day", "<b>5</b>")
	shows("GET", "/lists/own?odd=yes", "", own+":3", "in line 1", own+":2")
	shows("POST", "/lists/own/source", "what=fetch", "it is not fetched")
	shows("GET", "/lists/none", "", "there is no list with this name")
	shows("GET", "/lists/web?odd=yes", "", "has not been fetched yet")
	shows("POST", "/lists/web/source", "what=fetch", "A newer version is in use", ">2</b>")
	shows("POST", "/lists/web/source", "what=fetch", "There is nothing newer")
	text.Store("one.example\ntwo.example\nthree.example\n")
	shows("POST", "/lists/web/source", "what=fetch", "A newer version is in use", ">3</b>", "Go back")
	shows("POST", "/lists/web/source", "what=back", "is in use again", ">2</b>", "rolled back")
	shows("POST", "/lists/web/source", "what=dance", "neither fetch nor back")
	if used != 3 {
		t.Errorf("lists were put into use %d times, want 3", used)
	}
}

// TestLinesOfAListAreForThoseWhoMayReadIt: a file that the gateway did not fetch may be any: below an
// owner, people see which lines are odd, and below an operator how many.
func TestLinesOfAListAreForThoseWhoMayReadIt(t *testing.T) {
	const secret = "root:$6$geheim"
	dir := t.TempDir()
	own := filepath.Join(dir, "own.txt")
	if err := os.WriteFile(own, []byte("bet.example\n"+secret+" x\nbet.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := collection.Config{"own": {Config: list.Config{Format: list.Domains, Path: setting.Source(own), Category: "gambling"}}}
	c, err := collection.Open(t.Context(), cfg, dir, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shown := (&lists.Lists{In: func() (*collection.Collection, *http.Client) { return c, http.DefaultClient }}).ShowLists()
	h := admintest.NewHouse(t)
	h.Parts.Lists = shown
	h.Site = admin.New(h.Parts)
	for role, want := range map[account.Role]struct{ line, number bool }{account.Owner: {true, true}, account.Operator: {false, true}, account.Helper: {}, account.Viewer: {}} {
		for _, accept := range []string{"text/html", "application/json"} {
			for _, path := range []string{"/lists/own", "/lists/own?odd=yes"} {
				w := h.Ask(role, "GET", path, "", func(r *http.Request) { r.Header.Set("Accept", accept) })
				said := w.Body.String()
				number := strings.Contains(said, "own.txt:2") || strings.Contains(said, `"Line":2`)
				if w.Code != http.StatusOK || strings.Contains(said, "geheim") != want.line || number != want.number {
					t.Errorf("%s as %s as %v: %d, the line %v, its number %v; want %v, %v\n%s", path, accept, role, w.Code, strings.Contains(said, "geheim"), number, want.line, want.number, said)
				}
			}
		}
	}
}
