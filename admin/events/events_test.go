package events_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/events"
	"shuultuur/admin/lists"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/collection"
)

const markup = `<script>alert(1)</script>"'.example`

// recordOf returns a record with two rows that are full of markup.
func recordOf(t *testing.T, asked *admintest.Fake, changed *[]string) http.Handler {
	t.Helper()
	row := event.Row{Seq: 2, Client: netip.MustParseAddr("10.0.0.1"), User: markup, Host: markup, URL: "http://" + markup, Rule: markup, Method: markup,
		Note: markup, Category: markup, Action: filter.Block}
	passed := row
	passed.Action = filter.Pass
	asked.Rows, asked.Name = []event.Row{row, passed}, markup
	return admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: "0123456789abcdef"},
		Events: &web.Record{Reader: asked},
		Lists: &lists.Lists{
			All: func() []lists.List { return []lists.List{{Name: "own" + markup}} },
			Search: func(name string) ([]lists.Hit, error) {
				if name != "bet.example" {
					return nil, nil
				}
				return []lists.Hit{{List: "a", FoundEntry: list.FoundEntry{Category: "gambling"}}, {List: "b", FoundEntry: list.FoundEntry{Category: "Gambling"}}, {List: "b", FoundEntry: list.FoundEntry{Category: "gambling"}},
					{List: "c", FoundEntry: list.FoundEntry{Category: "ads"}}, {List: "d", FoundEntry: list.FoundEntry{Category: "gambling", Exception: true}}}, nil
			},
			Change: func(_ context.Context, changes map[string][]list.Change) error {
				for _, name := range slices.Sorted(maps.Keys(changes)) {
					c := changes[name]
					if name == "none" {
						return collection.ErrNoList
					}
					if strings.Contains(c[0].Entry, "<") {
						return &web.BadChange{Err: errors.New("not a host")}
					}
					*changed = append(*changed, fmt.Sprintf("%s %+v", name, c[0]))
				}
				return nil
			},
		}})
}

func TestEventsShowMarkupAsText(t *testing.T) {
	var f admintest.Fake
	h := recordOf(t, &f, new([]string))
	for _, path := range []string{"/events?filter=" + url.QueryEscape(markup), "/events?filter=client:" + url.QueryEscape(markup), "/reports?span=today"} {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		page := w.Body.String()
		if !strings.Contains(page, "&lt;script&gt;alert(1)") || strings.Count(page, "<script") != strings.Count(page, `<script src="/static/`) || strings.Contains(page, `"'.example`) {
			t.Errorf("%s: markup is not shown as text:\n%s", path, page)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: the content security policy does not forbid scripts", path)
		}
		if strings.Contains(w.Header().Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: the content security policy permits scripts or styles in the page", path)
		}
	}
}

func TestEventsAreGuarded(t *testing.T) {
	var f admintest.Fake
	var changed []string
	h := recordOf(t, &f, &changed)
	for _, c := range []struct {
		method, path, remote, token, origin string
		status                              int
	}{
		{"GET", "/events", "192.0.2.1:5000", "", "", 401},
		{"GET", "/statistics", "192.0.2.1:5000", "", "", 401},
		{"POST", "/events", "192.0.2.1:5000", "", "", 401},
		{"POST", "/events", "192.0.2.1:5000", "wrong", "", 401},
		{"POST", "/events", "127.0.0.1:5000", "", "http://evil.example", 403},
		{"PUT", "/events", "127.0.0.1:5000", "", "", 405},
		{"GET", "/events", "192.0.2.1:5000", "0123456789abcdef", "", 200},
		{"GET", "/statistics", "127.0.0.1:5000", "", "", 200},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1"+c.path, strings.NewReader("what=block&list=own&entry=tea.example"))
		r.RemoteAddr = c.remote
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: status %d, %s", c, w.Code, w.Body)
		}
	}
	if changed != nil {
		t.Errorf("refused requests changed %q", changed)
	}
}

func TestEventsAreAskedForWhatThePageNames(t *testing.T) {
	var f admintest.Fake
	var changed []string
	h := recordOf(t, &f, &changed)
	for _, c := range []struct {
		query, form string
		status      int
		says        string
		changed     string
	}{
		{"filter=client:::ffff:10.0.0.1+host:Bet.example+action:block&last=2h&before=7", "", 200, `"action":"block"`, "[]"},
		{"filter=client:me", "", 400, `"me" is not the address of a client`, "[]"},
		{"filter=action:kill", "", 400, `"kill" is not an action`, "[]"},
		{"last=-1h", "", 400, "is not a time to look back", "[]"},
		{"", "what=block&list=own&entry=tea.example&category=hot", 200, "", "[own {Entry:tea.example Category:hot Remove:false Exact:false Exception:false}]"},
		{"", "what=block&list=none&entry=tea.example", 404, "no list with this name", "[]"},
		{"", "what=block&list=own&entry=<b>", 400, "not a host", "[]"},
		{"", "what=allow&entry=bet.example&category=gambling", 200, "", "[a {Entry:bet.example Category:gambling Remove:false Exact:false Exception:true} b {Entry:bet.example Category:Gambling Remove:false Exact:false Exception:true}]"},
		{"", "what=allow&entry=tea.example&category=gambling", 400, "something else decided", "[]"},
		{"", "what=else&entry=tea.example", 400, "neither allow nor block", "[]"},
		{"", "what=unblock&list=own&entry=tea.example&category=hot", 200, "", "[own {Entry:tea.example Category:hot Remove:true Exact:false Exception:false}]"},
		{"", "what=unallow&entry=bet.example&category=gambling", 200, "", "[d {Entry:bet.example Category:gambling Remove:true Exact:false Exception:true}]"},
		{"", "what=unallow&entry=tea.example&category=gambling", 400, "no list excepts", "[]"},
	} {
		changed = nil
		method := "GET"
		if c.form != "" {
			method = "POST"
		}
		r := httptest.NewRequest(method, "http://127.0.0.1/events?"+c.query, strings.NewReader(c.form))
		r.RemoteAddr = "127.0.0.1:5000"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || fmt.Sprint(changed) != c.changed {
			t.Errorf("POST /events%s %s: status %d, %s; changed %s", c.query, c.form, w.Code, w.Body, changed)
		}
		if c.query != "" && c.status == 200 {
			wanted := event.Row{Time: time.Now(), Client: netip.MustParseAddr("10.0.0.1"), Host: "www.bet.example", Action: filter.Block}
			if !f.Filter.Match(&wanted) || len(f.Filter.Terms) != 3 || f.Filter.Since.IsZero() || f.Page != (event.Page{Newest: true, Limit: events.MaxRows, After: 7}) {
				t.Errorf("GET /events%s queried the record with %+v, %+v", c.query, f.Filter, f.Page)
			}
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://127.0.0.1/events", nil)
	r.RemoteAddr = "127.0.0.1:5000"
	admintest.Handler(true).ServeHTTP(w, r)
	if w.Code != 404 || !strings.Contains(w.Body.String(), "events.sqlite") {
		t.Errorf("without a record: status %d, want 404 and events.sqlite: %s", w.Code, w.Body)
	}
}

// TestAllowIsOfferedWhereAnExceptionHelps: lists cannot allow requests that the proxy itself or
// a limit refuses.
func TestAllowIsOfferedWhereAnExceptionHelps(t *testing.T) {
	row := event.Row{Client: netip.MustParseAddr("10.0.0.1"), Host: "bet.example", Action: filter.Block}
	for category, offered := range map[string]bool{"gambling": true, "GAMBLING": true, "refused": false, "limit": false, "phrase": false, "": false} {
		row.Category = category
		h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} },
			Events: &web.Record{Reader: &admintest.Fake{Rows: []event.Row{row}}},
			Lists:  &lists.Lists{All: func() []lists.List { return []lists.List{{Name: "own", Categories: map[string]int{"Gambling": 1}}} }},
		})
		r := httptest.NewRequest("GET", "http://127.0.0.1/events", nil)
		r.RemoteAddr = "127.0.0.1:5000"
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := strings.Contains(w.Body.String(), `value="allow"`); w.Code != 200 || got != offered {
			t.Errorf("category %q: status %d, allow is offered %v, want %v", category, w.Code, got, offered)
		}
	}
}

func TestEventsHaveAnAddressForTheNextPage(t *testing.T) {
	full := make([]event.Row, events.MaxRows)
	for i := range full {
		full[i].Seq = int64(1000 - i)
	}
	for _, rows := range [][]event.Row{full, full[1:]} {
		h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Events: &web.Record{Reader: &admintest.Fake{Rows: rows}}})
		r := httptest.NewRequest("GET", "http://127.0.0.1/events?filter=action:block&last=1d", nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := ""
		if len(rows) == events.MaxRows {
			want = `</events?before=801&filter=action%3Ablock&last=1d>; rel="next"`
		}
		if got := w.Header().Get("Link"); got != want {
			t.Errorf("%d rows: Link %q, want %q", len(rows), got, want)
		}
	}
}

func TestActivityIsATableForSpreadsheets(t *testing.T) {
	parts := admintest.Nobody()
	parts.Events = &web.Record{Reader: admintest.Memory{
		{Time: time.Now(), User: "=cmd()", Host: "a.example", URL: "https://a.example/,\"x", Action: filter.Block},
		{Time: time.Now(), User: "anna", Host: "b.example"},
	}}
	s := admin.New(parts)
	w := admintest.Ask(s, "GET", "/events?form=csv&last=1d&filter=action:block", "text/html", "")
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || w.Code != 200 || len(rows) != 2 || rows[1][2] != "'=cmd()" || rows[1][10] != "https://a.example/,\"x" {
		t.Errorf("status %d, %v: %q", w.Code, err, rows)
	}
	if w := admintest.Ask(s, "GET", "/events?form=csv&filter=action:x", "", ""); w.Code != 400 {
		t.Errorf("a filter that is none: status %d, want 400", w.Code)
	}
}
