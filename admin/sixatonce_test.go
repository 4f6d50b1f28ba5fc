//go:build !small

package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/search"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/authority"
)

const people = 6 // that change something at the same moment

// A contest is a change that six people make at once, each another one. Whoever was told that it
// was made finds it on the page afterwards, and nobody else does.
type contest struct {
	form  func(s *six, i int) string // of person i; all forms are made before the first is sent
	path  string                     // if it is not that of the route
	shown func(s *six, i int) bool   // whether the change of person i is to be seen
	one   bool                       // who comes first wins, because all have read the same
	same  bool                       // all make the same change
	why   string                     // instead of all this: nothing can be lost
}

// These reasons stand for routes whose changes cannot undo each other.
const (
	keepsNothing = "it keeps nothing that others change"
	ownSession   = "it is about the session of who asks"
	instruction  = "each is an instruction of its own, which the tests of policy and fleet keep"
)

// sixServices are services that six people close.
var sixServices = [...]string{"youtube", "roblox", "discord", "twitch", "netflix", "tinder"}

// contests has a row for each route that changes something.
var contests = map[string]contest{
	"POST /events":              {why: "it changes a list as POST /lists does"},
	"POST /lists":               {why: "a node changes lists one after the other, see TestSixChangesOfAListAtOnce in fleet"},
	"POST /lists/{name}":        {why: "a node changes lists one after the other, see TestSixChangesOfAListAtOnce in fleet"},
	"POST /lists/{name}/remove": {why: "it saves the settings, as PUT /settings does"},
	"POST /lists/{name}/text":   {why: "one text is written at a time, and names the one it replaces"},
	"POST /lists/new":           {why: "one list is looked at at a time; it saves the settings, as PUT /settings does"},
	"POST /lists/{name}/source": {why: "versions of a list are fetched one after the other"},
	"POST /bonus":               {why: instruction},
	"POST /pause":               {why: instruction},
	"POST /rulings":             {why: instruction},
	"POST /votes":               {why: "decisions are rows of a database"},
	"POST /votes/withdraw":      {why: "decisions are rows of a database"},
	"POST /votes/on":            {why: "it writes the same whoever asks"},
	"POST /alerts/{id}":         {why: "the state of an alert is a word with a note, and all notes stay"},
	"POST /api/sessions":        {why: "sessions are kept by address, see the tests of identity/session"},
	"DELETE /api/sessions":      {why: "sessions are kept by address, see the tests of identity/session"},
	"POST /privacy/erase":       {why: "what is erased is erased"},
	"POST /view":                {why: "each browser keeps its own"},
	"POST /settings/check":      {why: keepsNothing},
	"POST /settings/form":       {why: "it saves as POST /settings does, by the tag of the text"},
	"POST /zones/{origin}/sign": {why: "signed once is signed; the others are told so"},
	"POST /login/invited":       {why: "an invitation is good once"},
	"POST /accounts/restore":    {why: "taken back once is taken back"},
	"POST /accounts/uninvite":   {why: "taken back once is taken back"},
	"POST /accounts/invite": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("name=six-%d&role=viewer", i) },
		shown: on("/accounts/invitations", "six-%d")},
	"POST /system/backups":             {why: "backups of one second are one"},
	"POST /system/backups/remove":      {why: "removed is removed"},
	"POST /settings/restart":           {why: "started again is started again"},
	"POST /system/restore":             {why: "who comes second is told that a backup is being restored"},
	"POST /setup/{step}":               {why: "its link is good once"},
	"POST /setup/port53":               {why: "its link is good once"},
	"POST /setup/end":                  {why: "ended is ended"},
	"POST /names/flush":                {why: keepsNothing},
	"POST /fleet/offer":                {why: "one bundle is offered at a time, under the next serial number"},
	"POST /fleet/more":                 {why: "each share follows the one before"},
	"POST /fleet/back":                 {why: "taken back once is taken back"},
	"POST /cache/purge":                {why: keepsNothing},
	"POST /mcp":                        {why: keepsNothing},
	"POST /login":                      {why: ownSession},
	"POST /logout":                     {why: ownSession},
	"POST /login/passkey/challenge":    {why: ownSession},
	"POST /login/passkey":              {why: ownSession},
	"POST /account/passkeys":           {why: "a challenge is good once"},
	"POST /account/passkeys/challenge": {why: keepsNothing},
	"POST /account/passkeys/end":       {why: "it removes what has an identifier of its own"},
	"POST /account/password":           {why: "each ends all sessions, with those of the others"},
	"POST /account/totp":               {why: "a code is good once"},
	"POST /account/totp/end":           {why: "ended is ended"},
	"POST /accounts/totp/end":          {why: "ended is ended"},

	"POST /events/searches": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("name=six-%d&filter=user:anna&last=1d", i) },
		shown: on("/events?filter=user:anna", "six-%d")},
	"POST /looks": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("whom=six-%d&reason=tea", i) },
		shown: on("/looks", "six-%d")},
	"POST /looks/agree": {
		form: (*six).look, shown: func(s *six, i int) bool {
			for _, l := range s.asked() {
				if l.Whom == fmt.Sprintf("whom-%d", i) {
					return l.Agreed != ""
				}
			}
			return false
		}},
	"POST /looks/end": {form: (*six).look, shown: gone("/looks", "whom-%d")},

	"POST /clients": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("what=join&name=six-%d&group=7a", i) },
		shown: on("/settings", "six-%d")},
	"POST /policies": {
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/settings")}, "policy": {"0"}, "what": {"add"}, "text": {fmt.Sprintf("{name: six-%d, action: allow}", i)}}.Encode()
		},
		shown: on("/settings", "six-%d"), one: true},
	"POST /policies/rule": {
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/settings")}, "policy": {"0"}, "action": {"allow"}, "name": {fmt.Sprintf("six-%d", i)}}.Encode()
		},
		shown: on("/settings", "six-%d"), one: true},
	"POST /policies/group": {
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/settings")}, "name": {fmt.Sprintf("six-%d", i)}, "groups": {"7a"}}.Encode()
		},
		shown: on("/settings", "six-%d"), one: true},
	"POST /services": {
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/settings")}, "policy": {"0"}, "close": {sixServices[i]}}.Encode()
		},
		shown: func(s *six, i int) bool {
			return strings.Contains(s.page("/settings"), "service: ["+sixServices[i]+"]")
		}, one: true},
	"PUT /settings": {
		form:  func(_ *six, i int) string { return admintest.HouseSettings + fmt.Sprintf("# six-%d\n", i) },
		shown: on("/settings", "six-%d"), one: true},
	"POST /settings": {
		form: func(s *six, i int) string {
			text := admintest.HouseSettings + fmt.Sprintf("# six-%d\n", i)
			return url.Values{"tag": {s.tag("/settings")}, "what": {"save"}, "text": {text}, "checked": {web.Tag([]byte(text))}}.Encode()
		},
		shown: on("/settings", "six-%d"), one: true},

	"POST /zones": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("origin=new.test&address=192.0.2.%d", i+10) },
		shown: on("/zones/new.test.", "192.0.2.1%d"), one: true},
	"POST /zones/{origin}": {path: "/zones/example.test.",
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/zones/example.test.")}, "text": {strings.Replace(admintest.FirstZone, " 1 3600", " 2 3600", 1) + fmt.Sprintf("six-%d A 192.0.2.9\n", i)}}.Encode()
		},
		shown: on("/zones/example.test.", "six-%d"), one: true},
	"POST /zones/{origin}/record": {path: "/zones/example.test./record",
		form: func(s *six, i int) string {
			return url.Values{"tag": {s.tag("/zones/example.test.")}, "what": {"add"}, "name": {fmt.Sprintf("six-%d", i)}, "type": {"A"}, "address": {"192.0.2.9"}}.Encode()
		},
		shown: on("/zones/example.test.", "six-%d"), one: true},
	"POST /zones/{origin}/delete": {path: "/zones/example.test./delete",
		form:  func(s *six, _ int) string { return "tag=" + s.tag("/zones/example.test.") },
		shown: gone("/zones/example.test.", "192.0.2.2"), one: true, same: true},
	"POST /zones/{origin}/restore": {path: "/zones/gone.test/restore",
		form: func(s *six, i int) string {
			kept := web.Versions{Dir: filepath.Join(s.Parts.Settings.Versions.Dir, "zones", "file "+url.PathEscape("gone.test. "))}
			if i == 0 {
				if err := kept.Add([]byte(admintest.FirstZone), "anna", ""); err != nil {
					s.t.Fatal(err)
				}
			}
			return ""
		},
		shown: on("/zones/gone.test.", "192.0.2.2"), one: true, same: true},

	"POST /accounts": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("name=six-%d&role=viewer", i) },
		shown: on("/accounts", "six-%d")},
	"POST /accounts/edit": {
		form: func(s *six, i int) string {
			return "role=helper&groups=class-" + fmt.Sprint(i) + "&name=" + s.person(i)
		},
		shown: on("/accounts", "class-%d")},
	"POST /accounts/password": {
		form: func(s *six, i int) string { return "password=correct+horse+battery&name=" + s.person(i) },
		shown: func(s *six, i int) bool {
			return s.Parts.Accounts.Has(s.t.Context(), fmt.Sprintf("person-%d", i), "correct horse battery")
		}},
	"POST /accounts/remove": {
		form:  func(s *six, i int) string { return "name=" + s.person(i) },
		shown: gone("/accounts", "person-%d")},
	"POST /accounts/tokens/end":   {form: (*six).token, shown: gone("/accounts/tokens", "purpose-%d")},
	"POST /accounts/sessions/end": {form: (*six).session, shown: gone("/accounts/sessions", "person-%d")},
	"POST /account/tokens": {
		form:  func(_ *six, i int) string { return fmt.Sprintf("purpose=six-%d&scope=read", i) },
		shown: on("/accounts/tokens", "six-%d")},
	"POST /account/tokens/end": {form: (*six).token, shown: gone("/accounts/tokens", "purpose-%d")},
	"POST /account/sessions/end": {
		form: func(s *six, i int) string {
			if _, err := s.Parts.Accounts.Begin("the-owner", fmt.Sprintf("way-%d", i), account.Origin{}); err != nil {
				s.t.Fatal(err)
			}
			return s.idIn("/accounts/sessions", fmt.Sprintf("way-%d", i))
		},
		shown: gone("/accounts/sessions", "way-%d")},
}

// on returns whether a page shows the mark of a person's change.
func on(page, mark string) func(s *six, i int) bool {
	return func(s *six, i int) bool {
		return strings.Contains(s.page(page), strings.ReplaceAll(mark, "%d", fmt.Sprint(i)))
	}
}

// gone is on for changes that take something away.
func gone(page, mark string) func(s *six, i int) bool {
	shown := on(page, mark)
	return func(s *six, i int) bool { return !shown(s, i) }
}

// six is a house with six people in it.
type six struct {
	*admintest.House
	t *testing.T
}

// house makes a house in which zones are in a folder that is watched.
func house(t *testing.T) *six {
	h := admintest.NewHouse(t)
	paper := &admintest.Paper{Text: admintest.HouseSettings}
	h.Parts.Settings = paper.Parts(t)
	h.Parts.Settings.File = filepath.Join(h.Dir, "shuultuur.yaml")
	h.Parts.Clients.Known = paper.Known
	h.Parts.Searches = &search.Book{File: filepath.Join(h.Dir, "searches.json")}
	folder := filepath.Join(h.Dir, "zones")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "example.test.zone"), []byte(admintest.FirstZone), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := authority.New(authority.Config{Files: zone.Config{Reread: setting.Duration(10 * time.Millisecond), Files: []zone.File{{Path: setting.Source(folder)}}}}, nil,
		func() authority.Upstream { return nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	h.Parts.Zones = func() *authority.Authority { return a }
	h.Site = admin.New(h.Parts)
	return &six{h, t}
}

func (s *six) page(path string) string {
	return s.Ask(account.Owner, "GET", path, "", func(r *http.Request) {
		if strings.HasPrefix(path, "/events") { // the page has the searches
			r.Header.Set("Accept", "text/html")
		}
	}).Body.String()
}

func (s *six) tag(path string) string {
	return strings.Trim(s.Ask(account.Owner, "GET", path, "").Header().Get("ETag"), `"`)
}

// person adds an account and returns its name.
func (s *six) person(i int) string {
	name := fmt.Sprintf("person-%d", i)
	if err := s.Parts.Accounts.Add(name, account.Viewer, nil, ""); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// idIn returns the form with the identifier of what has a mark.
func (s *six) idIn(page, mark string) string {
	var all []map[string]any
	if err := json.Unmarshal([]byte(s.page(page)), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, x := range all {
		if text, _ := json.Marshal(x); bytes.Contains(text, []byte(mark)) {
			return fmt.Sprint("id=", x["id"])
		}
	}
	s.t.Fatalf("%s has no %q: %v", page, mark, all)
	return ""
}

func (s *six) token(i int) string {
	if _, _, err := s.Parts.Accounts.NewToken("the-owner", fmt.Sprintf("purpose-%d", i), []string{"read"}, time.Hour); err != nil {
		s.t.Fatal(err)
	}
	return s.idIn("/accounts/tokens", fmt.Sprintf("purpose-%d", i))
}

func (s *six) session(i int) string {
	if _, err := s.Parts.Accounts.Begin(s.person(i), "password", account.Origin{}); err != nil {
		s.t.Fatal(err)
	}
	return s.idIn("/accounts/sessions", fmt.Sprintf("person-%d", i))
}

func (s *six) look(i int) string {
	whom := fmt.Sprintf("whom-%d", i)
	if w := s.Ask(account.Lead, "POST", "/looks", "reason=tea&whom="+whom); w.Code >= 400 {
		s.t.Fatal(w.Body)
	}
	return s.idIn("/looks", whom)
}

// asked returns the requests to look, and whether somebody has agreed.
func (s *six) asked() (all []struct{ Whom, Agreed string }) {
	if err := json.Unmarshal([]byte(s.page("/looks")), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// Whatever six people change at once: who was told that it was done finds it, and who was not has
// changed nothing. Each route of the table that changes something is tried, or says why not.
func TestSixAtOnceLoseNothing(t *testing.T) {
	all := house(t)
	for _, r := range admintest.Table(all.Parts) {
		if r.Method == http.MethodGet {
			continue
		}
		name := r.Method + " " + r.Path
		c, known := contests[name]
		switch {
		case !known:
			t.Errorf("%s changes something: add a row to contests with what six people do there at once", name)
		case c.why == "":
			t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
				t.Parallel()
				c.try(t, r)
			})
		}
	}
}

func (c *contest) try(t *testing.T, r web.Route) {
	s := house(t)
	var forms []string
	for i := range people {
		forms = append(forms, c.form(s, i))
	}
	tag := s.tag("/settings")
	var asking sync.WaitGroup
	var answers [people]*httptest.ResponseRecorder
	start := make(chan struct{})
	for i := range people {
		asking.Go(func() {
			<-start
			answers[i] = s.Ask(account.Owner, r.Method, cmp.Or(c.path, r.Path), forms[i], func(q *http.Request) {
				if r.Method == http.MethodPut {
					q.Header.Set("If-Match", `"`+tag+`"`)
				}
			})
		})
	}
	close(start)
	asking.Wait()
	done, said := 0, ""
	for i, a := range answers {
		told := a.Code < 400
		if told {
			done++
		}
		said += fmt.Sprintf("%d %.300s\n", a.Code, a.Body)
		if seen := c.shown(s, i); seen != told && !(seen && c.same) {
			t.Errorf("person %d was answered %d, and the change is there: %v", i, a.Code, seen)
		}
		if !told && !c.one && a.Code != http.StatusPreconditionFailed {
			t.Errorf("person %d was answered %d, want a success, or 412 to try again:\n%.500s", i, a.Code, a.Body)
		}
	}
	if done == 0 || c.one && done > 1 {
		t.Errorf("%d of six were told that it was done:\n%s", done, said)
	}
}
