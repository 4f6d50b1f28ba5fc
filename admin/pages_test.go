package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
)

// ask sends a request from this machine; form is the body of a POST.
func ask(h http.Handler, method, path, accept, form string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(form))
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("Accept", accept)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func nobody() Parts {
	return Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{Ready: true, Revision: "abc"} }}
}

func TestStaticFilesAreKeptForEverByTheirDigest(t *testing.T) {
	h := New(nobody())
	page := ask(h, "GET", "/", "text/html", "").Body.String()
	total := len(page)
	gz := func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip;q=0.9") }
	found := regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(found) != 7 { // two style sheets, an icon, htmx and uPlot and what is between them and the pages
		t.Fatalf("the start page loads %q", found)
	}
	for _, f := range found {
		w := ask(h, "GET", f[1], "", "", gz)
		total += w.Body.Len()
		plain := ask(h, "GET", f[1], "", "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip;q=0") })
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("decompressing %s: %v", f[1], err)
		}
		if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, plain.Body.Bytes()) || len(b) == 0 || plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("ETag") == w.Header().Get("ETag") {
			t.Errorf("%s: %v, %d bytes compressed, %d plain; %v", f[1], err, len(b), plain.Body.Len(), plain.Header())
		}
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("ETag") == "" {
			t.Errorf("%s: status %d, header %v; want it cached", f[1], w.Code, w.Header())
		}
		again := ask(h, "GET", f[1], "", "", gz, func(r *http.Request) { r.Header.Set("If-None-Match", w.Header().Get("ETag")) })
		if again.Code != http.StatusNotModified {
			t.Errorf("%s with its ETag: status %d, want 304", f[1], again.Code)
		}
	}
	if total > 150<<10 {
		t.Errorf("the first page loads %d bytes, want at most 150 KiB", total)
	}
	if w := ask(h, "GET", "/static/0000/style.css", "", ""); w.Code != 200 || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("a file under another digest: status %d, header %v; want it uncached", w.Code, w.Header())
	}
	for _, bad := range []string{"/static/0/../admin.go", "/static/0/none.css", "/static/0/..%2fadmin.go"} {
		if w := ask(h, "GET", bad, "", ""); w.Code == 200 {
			t.Errorf("the server serves %s", bad)
		}
	}
}

func TestTheLastHourIsCountedByVerdict(t *testing.T) {
	var l Live
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(ago time.Duration, p filter.Proto, a filter.Action, took time.Duration) {
		t := filter.Transaction{Proto: p, Verdict: filter.Verdict{Action: a}}
		t.Duration = took
		l.Add(now.Add(-ago), &t)
	}
	add(2*time.Hour, filter.HTTP, filter.Block, time.Second) // long ago
	for range 9 {
		add(30*time.Minute, filter.DNS, filter.Pass, 100*time.Microsecond)
	}
	add(0, filter.HTTP, filter.Block, 50*time.Millisecond)
	r := l.Recent(now)
	if r.Queries != 9 || r.Requests != 1 || r.Actions["block"] != 1 || r.Actions["pass"] != 9 || len(r.Moments) != slots {
		t.Errorf("the counts are %+v", r.Actions)
	}
	if r.Half < 100*time.Microsecond || r.Half > 200*time.Microsecond || r.Slow < 50*time.Millisecond || r.Slow > 100*time.Millisecond {
		t.Errorf("half took up to %v, 95 of 100 up to %v", r.Half, r.Slow)
	}
	verdicts, latency := r.graphs()
	if n := len(verdicts.Rows); n != 60 || len(latency.Rows) != 60 || len(verdicts.Columns) != 2 ||
		!slices.Equal(verdicts.Rows[n-1].Values, []string{"0", "1"}) || !slices.Equal(verdicts.Rows[n-31].Values, []string{"9", "0"}) || !slices.Equal(latency.Rows[n-31].Values, []string{"0.128", "0.128"}) || !slices.Equal(latency.Rows[0].Values, []string{"", ""}) {
		t.Errorf("drawn %v and %v", verdicts, latency)
	}
	if r := l.Recent(now.Add(3 * time.Hour)); r.Queries+r.Requests != 0 {
		t.Errorf("after three hours the counts are %+v, want none", r.Actions)
	}
}

func TestTheStartPageNamesWhatIsBlockedMost(t *testing.T) {
	p := nobody()
	f := fake{name: "bet.example"}
	p.Events, p.Live = &Events{Reader: &f}, &Live{}
	p.Health = func() Health { return Health{Problems: []string{"the list <own> is old"}} }
	h := New(p)
	page := ask(h, "GET", "/", "text/html", "").Body.String()
	for _, want := range []string{"bet.example", "the list &lt;own&gt; is old", `action:block`, "no requests yet"} {
		if !strings.Contains(page, want) {
			t.Errorf("the start page lacks %q", want)
		}
	}
	if w := ask(h, "GET", "/overview", "", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"moments"`) {
		t.Errorf("/overview: status %d, %s", w.Code, w.Body)
	}
}

// A growing record is one to which rows are added.
type growing struct {
	fake
	mu   sync.Mutex
	rows []event.Row
}

func (g *growing) add(r event.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Seq = int64(len(g.rows) + 1)
	g.rows = append(g.rows, r)
}

func (g *growing) Query(_ context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	g.mu.Lock()
	rows := slices.Clone(g.rows)
	g.mu.Unlock()
	if p.Newest {
		slices.Reverse(rows)
	}
	return func(yield func(event.Row, error) bool) {
		n := 0
		for _, row := range rows {
			if !p.Newest && row.Seq <= p.After || p.Newest && p.After > 0 && row.Seq >= p.After || !f.Match(&row) {
				continue
			}
			if n++; p.Limit > 0 && n > p.Limit || !yield(row, nil) {
				return
			}
		}
	}
}

func TestLivePagesGetWhatTheirFilterWants(t *testing.T) {
	g := &growing{}
	g.add(event.Row{Host: "old.example"})
	p := nobody()
	p.Events = &Events{Reader: g}
	s := httptest.NewServer(New(p))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type stream struct {
		filter, form, want string
	}
	var wait sync.WaitGroup
	ready := make(chan bool, 2)
	for _, x := range []stream{{"action:block", "", `<bdi>&lt;b&gt;.example</bdi>`}, {"host:tea.example", "json", `"host":"tea.example"`}} {
		wait.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/events/live?"+url.Values{"filter": {x.filter}, "form": {x.form}}.Encode(), nil)
			res, err := http.DefaultClient.Do(r)
			ready <- true
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			got := ""
			b := make([]byte, 4096)
			for !strings.Contains(got, x.want) {
				n, err := res.Body.Read(b)
				if got += string(b[:n]); err != nil {
					t.Errorf("filter %s: the stream ended with %v after %q", x.filter, err, got)
					return
				}
			}
			if strings.Contains(got, "old.example") || x.form == "" && strings.Contains(got, "tea.example") {
				t.Errorf("filter %s: the stream sent %q", x.filter, got)
			}
		})
	}
	<-ready
	<-ready
	// Reading begins after the existing rows. It may miss rows that arrive meanwhile.
	stop := make(chan bool)
	go func() {
		defer close(stop)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				g.add(event.Row{Host: "tea.example"})
				g.add(event.Row{Host: "<b>.example", Action: filter.Block})
			}
		}
	}()
	wait.Wait()
	cancel()
	<-stop
	if w := ask(New(p), "GET", "/events/live?filter=nofield:x", "", ""); w.Code != 400 {
		t.Errorf("a stream with a wrong filter: status %d, want 400", w.Code)
	}
}

// TestLivePagesShowWhatAPersonMaySee: the stream has the same limits as the record.
func TestLivePagesShowWhatAPersonMaySee(t *testing.T) {
	h := newHouse(t)
	h.rules.URLs = account.Operator
	d := &reader{parts: &h.parts}
	for role, want := range map[account.Role]string{
		account.Viewer:   "https://a.example/ https://b.example/",
		account.Operator: "https://a.example/secret?q=1 https://b.example/other",
		account.Helper:   "https://a.example/",
	} {
		b := d.bounds(&account.Who{Name: "x", Role: role, Groups: []string{"7a"}})
		tails := &tail{events: &growing{}}
		w, err := tails.join(event.Filter{}, b.redact)
		if err != nil {
			t.Fatal(err)
		}
		for row := range h.parts.Events.Query(t.Context(), event.Filter{}, event.Page{}) {
			tails.publish(&row)
		}
		tails.leave(w)
		var got []string
		for len(w.rows) > 0 {
			row := <-w.rows
			got = append(got, row.URL)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v sees %q, want %q", role, got, want)
		}
	}
}

// A program that follows the record gets each row once and in order, even when there are more
// than a stream sends, and when the stream breaks.
func TestAProgramFollowsTheRecord(t *testing.T) {
	g := &growing{}
	n := 0
	add := func(host string) {
		n++
		g.add(event.Row{Time: time.Now(), ID: strconv.Itoa(n), Client: netip.MustParseAddr("10.0.0.1"), Host: host, URL: "http://" + host + "/"})
	}
	for range 450 {
		add("old.example")
	}
	p := nobody()
	p.Events = &Events{Reader: g}
	s := httptest.NewServer(New(p))
	defer s.Close()
	c := Client{URL: s.URL}
	ids := func(limit int, oldest bool) (all []string) {
		t.Helper()
		for r, err := range c.Events(t.Context(), "host:old.example", limit, oldest) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.ID)
		}
		return all
	}
	if all := ids(0, true); len(all) != 450 || all[0] != "1" || all[449] != "450" {
		t.Errorf("oldest first: %d rows, %v", len(all), all)
	}
	if all := ids(201, false); len(all) != 201 || all[0] != "450" || all[200] != "250" {
		t.Errorf("newest first: rows %v, want 450 to 250", all)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan string, 10_000)
	done := make(chan error, 1)
	go func() {
		for r, err := range c.Follow(ctx, "host:new.example") {
			if err != nil {
				done <- err
				return
			}
			got <- r.ID
		}
		done <- nil
	}()
	var seen []string
	until := func(id string) {
		t.Helper()
		for len(seen) == 0 || seen[len(seen)-1] != id {
			select {
			case x := <-got:
				seen = append(seen, x)
			case err := <-done:
				t.Fatalf("Follow ended: %v", err)
			case <-ctx.Done():
				t.Fatalf("%d rows arrived, but not %s", len(seen), id)
			}
		}
	}
	for len(got) == 0 { // until it follows the record
		add("new.example")
		time.Sleep(50 * time.Millisecond)
	}
	for range 3000 {
		add("new.example")
		add("other.example")
	}
	add("new.example")
	until(strconv.Itoa(n))
	s.CloseClientConnections()
	for range 20 {
		add("new.example")
	}
	until(strconv.Itoa(n))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, id := range seen[1:] {
		a, _ := strconv.Atoi(seen[i])
		if b, _ := strconv.Atoi(id); b <= a || b > a+2 {
			t.Fatalf("row %s follows row %s", id, seen[i])
		}
	}
	if len(seen) < 3021 {
		t.Errorf("%d rows arrived, want at least 3021", len(seen))
	}
}

// Programs can ask for sums by a field instead of rows.
func TestSumsByAField(t *testing.T) {
	h := newHouse(t)
	for query, want := range map[string]string{
		"by=host": `"a.example"`, "by=user&top=1&filter=user:ben": `[{"name":"ben","events":1,"blocked":1}]`, "by=nonsense": "400 by=", "by=host&top=x": "400", "by=text": "400", "by=id": "400", "by=host&top=-1": "400",
		"by=host&filter=nonsense:x": "400",
	} {
		w := h.ask(account.Owner, "GET", "/events?"+query, "")
		if got := strconv.Itoa(w.Code) + " " + w.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if w := h.ask(account.Helper, "GET", "/events?by=user", ""); strings.Contains(w.Body.String(), "ben") || !strings.Contains(w.Body.String(), "anna") {
		t.Errorf("the sums for a helper have people of other groups: %s", w.Body)
	}
}

// A live page ends when its session ends, when its account may see less, and when a second
// person's agreement ends. It does not keep its session alive.
func TestALivePageEndsWithTheRightToSeeIt(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		do   func(h *house)
		ends bool
	}{
		"nothing happens":        {"/events/live", func(*house) {}, false},
		"the session is ended":   {"/events/live", func(h *house) { h.parts.Accounts.End(h.parts.Accounts.Sessions("the-safeguarding-lead")[0].ID, "") }, true},
		"the account is removed": {"/events/live", func(h *house) { h.parts.Accounts.Remove("the-safeguarding-lead") }, true},
		"the session is idle":    {"/events/live", func(*house) { time.Sleep(account.DefaultRules.Idle - time.Minute) }, true},
		"the agreement ends": {"/events/live?filter=user:anna", func(h *house) {
			h.parts.Looks.mu.Lock()
			id := h.parts.Looks.all[0].ID
			h.parts.Looks.mu.Unlock()
			h.parts.Looks.end(id)
		}, true},
		"the agreement holds": {"/events/live?filter=user:anna", func(*house) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				if strings.Contains(c.path, "anna") {
					h.rules.TwoPeople = true
					x, err := h.parts.Looks.ask("the-safeguarding-lead", "anna", "asked for", false)
					if err == nil {
						_, err = h.parts.Looks.agree(x.ID, "the-owner")
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := make(chan int, 1)
				time.Sleep(time.Minute) // so long after the last use
				go func() {
					over <- h.ask(account.Lead, "GET", c.path, "", func(r *http.Request) { *r = *r.WithContext(ctx) }).Code
				}()
				time.Sleep(3 * tailBeat)
				if len(over) > 0 {
					t.Fatalf("a live page ended while its session was valid: %v", <-over)
				}
				c.do(h)
				time.Sleep(2 * tailBeat)
				synctest.Wait()
				if ends := len(over) > 0; ends != c.ends {
					t.Errorf("the live page has ended: %v, want %v", ends, c.ends)
				}
				cancel()
				<-over
			})
		})
	}
}

func TestOneEventIsShownWithItsWhy(t *testing.T) {
	p := nobody()
	row := event.Row{ID: "x1", Seq: 1, Client: netip.MustParseAddr("10.0.0.1"), User: "anna", Host: "www.bet.example", URL: "http://www.bet.example/odds", Action: filter.Block, Rule: "betting",
		Findings: `[{"check":"category","category":"gambling","evidence":"own.txt:1 <bet.example>"}]`}
	p.Events = &Events{Reader: &fake{rows: []event.Row{row}}}
	var asked Question
	p.Explain = func(_ context.Context, q Question) (*Explanation, error) {
		asked = q
		return &Explanation{URL: q.URL, Action: "allow", Rule: "opened"}, nil
	}
	p.Rulings = &Rulings{All: func() []policy.Decision { return nil }}
	h := New(p)
	page := ask(h, "GET", "/events/x1", "text/html", "").Body.String()
	for _, want := range []string{"own.txt:1 &lt;bet.example&gt;", "betting", "opened", `<option value="bet.example">`, `value="anna"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if asked.URL != row.URL || asked.User != "anna" || asked.Client != row.Client {
		t.Errorf("the page asked why with %+v", asked)
	}
	if w := ask(h, "GET", "/events/x1", "", ""); !strings.Contains(w.Body.String(), `"host":"www.bet.example"`) {
		t.Errorf("the event as JSON is %s", w.Body)
	}
	p.Events = &Events{Reader: &fake{}}
	if w := ask(New(p), "GET", "/events/none", "text/html", ""); w.Code != 404 {
		t.Errorf("an unknown event: status %d, want 404", w.Code)
	}
}

func TestSitesAreOpenedAndBlockedByHand(t *testing.T) {
	var created []policy.Decision
	p := nobody()
	p.Rulings = &Rulings{All: func() []policy.Decision { return created }, Set: func(d policy.Decision, _ netip.Addr) error {
		if d.Who == "stranger" {
			return &BadChange{errors.New("who is that?")}
		}
		created = append(created, d)
		return nil
	}}
	p.Effect = func(_ context.Context, t Trial) (*Effect, error) {
		if d := t.Rulings[0]; d.Who == "stranger" {
			return nil, &BadChange{errors.New("who is that?")}
		}
		return &Effect{Judged: 7, Changed: 3}, nil
	}
	h := New(p)
	for form, want := range map[string]string{
		"what=block&site=tea.example&dry_run=true":              `"changed":3`,
		"what=end&site=tea.example&dry_run=1":                   `"judged":7`,
		"what=block&site=tea.example&who=stranger&dry_run=true": "who is that?",
		"what=smash&site=tea.example&dry_run=true":              "smash",
	} {
		if w := ask(h, "POST", "/rulings", "application/json", form); !strings.Contains(w.Body.String(), want) || len(created) > 0 {
			t.Errorf("the effect of %s: status %d, %s; made %v", form, w.Code, w.Body, created)
		}
	}
	p.Effect = nil // no effect has to be seen first
	h = New(p)
	for _, c := range []struct {
		form   string
		status int
		want   string
		until  time.Duration // 0 means permanent
	}{
		{"what=open&site=https://WWW.Bet.example/odds&who=anna&for=1h", 200, "www.bet.example anna false", time.Hour},
		{"what=block&site=tea.example.", 200, "tea.example  true", 0},
		{"what=open&site=tea.example&for=soon", 400, "", 0},
		{"what=open&site=tea.example&for=-1h", 400, "", 0},
		{"what=open&site=tea.example&who=stranger", 400, "", 0},
		{"what=smash&site=tea.example", 400, "", 0},
		{"what=end&site=tea.example&who=anna", 200, "tea.example anna false", -1},
	} {
		created = nil
		w := ask(h, "POST", "/rulings", "text/html", c.form)
		got := ""
		if len(created) == 1 {
			got = fmt.Sprintf("%s %s %v", created[0].Site, created[0].Who, created[0].Block)
			left := time.Until(created[0].Until)
			if c.until == 0 != created[0].Until.IsZero() || c.until > 0 && (left > c.until || left < c.until-time.Minute) || c.until < 0 && left > 0 {
				t.Errorf("%s holds until %v", c.form, created[0].Until)
			}
		}
		if w.Code != c.status || got != c.want {
			t.Errorf("%s: status %d, made %q; want %d, %q\n%s", c.form, w.Code, got, c.status, c.want, w.Body)
		}
		if undo := strings.Contains(w.Body.String(), `id="undo"`); undo != (c.status == 200 && c.until >= 0) {
			t.Errorf("%s: the page offers to undo it: %v, want the opposite", c.form, undo)
		}
	}
}

// paper implements Settings in memory.
type paper struct{ text, reason string }

func (s *paper) parts(t *testing.T) *Settings {
	t.Helper()
	kept := Versions{Dir: t.TempDir()}
	old, err := json.Marshal(Version{ID: "20260101T000000.000000Z", By: "anna", Reason: "first <try>", Tag: "x", Text: "old: 1\n"})
	if err == nil {
		err = os.WriteFile(filepath.Join(kept.Dir, "20260101T000000.000000Z.json"), old, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Settings{File: "shuultuur.yaml",
		Read: func() ([]byte, error) { return []byte(s.text), nil },
		Check: func(_ context.Context, text []byte) error {
			if strings.Contains(string(text), "mistake") {
				return setting.Mistakes{{File: "shuultuur.yaml", Line: 2, Key: "policies", Text: "is a <mistake>"}}
			}
			return nil
		},
		Save: func(_ context.Context, text []byte, tag, _, reason string) ([]string, error) {
			if tag != Tag([]byte(s.text)) {
				return nil, ErrChanged
			}
			s.text, s.reason = string(text), reason
			return []string{"listen changed in the settings: that needs a restart"}, nil
		},
		Versions: kept,
		Policies: func() ([]PolicyView, error) {
			return []PolicyView{{Name: "pupils", Rules: []RuleView{{Name: "games", Action: "block", When: []string{"category: <games>"}}}}}, nil
		},
	}
}

// paperEffect is the effect of every change.
func paperEffect(context.Context, Trial) (*Effect, error) {
	return &Effect{Judged: 48201, Changed: 312, Changes: []EffectKind{{Policy: "pupils", Category: "games", Was: "pass", Is: "block", Count: 312, Examples: []string{"http://<b>.example/"}}}}, nil
}

func TestSettingsAreSavedAfterTheirEffectWasSeen(t *testing.T) {
	s := &paper{text: "a: 1\nb: 2\n"}
	p := nobody()
	p.Settings = s.parts(t)
	p.Effect = paperEffect
	h := New(p)
	send := func(what, text, tag, checked string) *httptest.ResponseRecorder {
		return ask(h, "POST", "/settings", "text/html", url.Values{"what": {what}, "text": {text}, "tag": {tag}, "checked": {checked}, "reason": {"because"}}.Encode())
	}
	tag := Tag([]byte(s.text))
	if w := ask(h, "GET", "/settings", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "a: 1\nb: 2\n</textarea>") || !strings.Contains(w.Body.String(), "first &lt;try&gt;") {
		t.Fatalf("the editor: status %d, %s", w.Code, w.Body)
	}
	if w := send("check", "a: 1\nb: mistake\n", tag, ""); w.Code != 422 || !strings.Contains(w.Body.String(), `data-line="2"`) || !strings.Contains(w.Body.String(), "is a &lt;mistake&gt;") || strings.Contains(w.Body.String(), `value="save"`) {
		t.Errorf("checking a text with a mistake: status %d, %s", w.Code, w.Body)
	}
	const next = "a: 1\r\nb: 3 # why\r\n"
	w := send("save", next, tag, "")
	if body := w.Body.String(); s.text != "a: 1\nb: 2\n" || !strings.Contains(body, "312 of 48\u202f201 requests") || !strings.Contains(body, "http://&lt;b&gt;.example/") || !strings.Contains(body, `<div class="del">- b: 2</div><div class="add">+ b: 3 # why</div>`) {
		t.Fatalf("a text was saved before its effect was shown, or the page lacks the effect: %q\n%s", s.text, body)
	}
	checked := Tag([]byte("a: 1\nb: 3 # why\n"))
	if !strings.Contains(w.Body.String(), `name="checked" value="`+checked+`"`) {
		t.Error("the page lacks the mark of the text whose effect was seen")
	}
	if w := send("save", next, "stale", checked); w.Code != 412 || s.text != "a: 1\nb: 2\n" {
		t.Errorf("saving over a change on disk: status %d, want 412; the text is %q", w.Code, s.text)
	}
	if w := send("save", next, tag, checked); w.Code != 200 || s.text != "a: 1\nb: 3 # why\n" || s.reason != "because" || !strings.Contains(w.Body.String(), "that needs a restart") {
		t.Errorf("saving: status %d, the text is %q, the reason %q", w.Code, s.text, s.reason)
	}
	if w := ask(h, "GET", "/settings/versions/20260101T000000.000000Z", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "+ old: 1") {
		t.Errorf("an old version: status %d, %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/settings/versions/..%2f..%2fetc", "text/html", ""); w.Code != 404 {
		t.Errorf("an invalid version: status %d, want 404", w.Code)
	}
	if w := ask(h, "GET", "/policies", "text/html", ""); !strings.Contains(w.Body.String(), "category: &lt;games&gt;") {
		t.Errorf("the page of policies is %s", w.Body)
	}
}

func TestSettingsAreChangedByPrograms(t *testing.T) {
	s := &paper{text: "a: 1\n"}
	p := nobody()
	p.Settings = s.parts(t)
	p.Effect = paperEffect
	h := New(p)
	w := ask(h, "GET", "/settings", "", "")
	tag := w.Header().Get("ETag")
	if w.Body.String() != s.text || tag == "" {
		t.Fatalf("reading the settings: ETag %s, text %s", tag, w.Body)
	}
	match := func(tag string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("If-Match", tag) } }
	for _, c := range []struct {
		path, text, tag string
		status          int
		saved           bool
	}{
		{"/settings", "a: 2\n", "", 428, false},
		{"/settings", "a: 2\n", `"other"`, 412, false},
		{"/settings?dry_run=true", "a: 2\n", "", 200, false},
		{"/settings?dry_run=true", "mistake: 2\n", "", 422, false},
		{"/settings", "mistake: 2\n", tag, 422, false},
		{"/settings?reason=test", "a: 2\n", tag, 200, true},
		{"/settings", "a: 3\n", tag, 412, false},
	} {
		was := s.text
		w := ask(h, "PUT", c.path, "application/json", c.text, match(c.tag))
		if saved := s.text != was; w.Code != c.status || saved != c.saved {
			t.Errorf("PUT %s %q if the ETag is %s: status %d, saved %v; want %d, %v: %s", c.path, c.text, c.tag, w.Code, saved, c.status, c.saved, w.Body)
		}
		var out struct{ Effect *Effect }
		if c.status == 200 && (json.Unmarshal(w.Body.Bytes(), &out) != nil || out.Effect == nil || out.Effect.Changed != 312) {
			t.Errorf("the answer to PUT %s lacks the effect: %s", c.path, w.Body)
		}
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"},
		{"a\n", "a\nb\n", " a|+b"},
		{"", "a\n", "-|+a"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nx\n", "@… 5 lines| 6| 7| 8|-9|+x"},
		{"a\nb\nc\nd\n", "b\nc\nx\nd\n", "-a| b| c|+x| d"},
	} {
		var got []string
		for _, l := range diff(c.was, c.is) {
			got = append(got, map[string]string{"add": "+", "del": "-", "at": "@", "": " "}[l.Kind]+l.Text)
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("diff of %q and %q: %q, want %q", c.was, c.is, strings.Join(got, "|"), c.want)
		}
	}
}

func TestWhyAnswersInTheWordsOfTheForm(t *testing.T) {
	p := nobody()
	p.Explain = func(_ context.Context, q Question) (*Explanation, error) {
		if q.As == "nobody" {
			return nil, &BadChange{errors.New(`there is no policy "nobody"`)}
		}
		return &Explanation{URL: q.URL + " " + q.Client.String() + " " + strings.Join(q.Groups, "+"), Action: "block", Findings: []filter.Finding{{Check: "category", Evidence: "<own>:1; b:2"}}}, nil
	}
	h := New(p)
	for path, want := range map[string]string{
		"/why": "200 <!DOCTYPE",
		"/why?url=bet.example&client=10.0.0.1&groups=a,+b": "bet.example 10.0.0.1 a&#43;b",
		"/why?url=bet.example":                             "<code>&lt;own&gt;:1</code>",
		"/why?url=bet.example&client=me":                   "400 ",
		"/why?url=bet.example&as=nobody":                   "there is no policy &#34;nobody&#34;",
	} {
		w := ask(h, "GET", path, "text/html", "")
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in %s", path, want, got)
		}
	}
	if w := ask(h, "GET", "/why", "", ""); w.Code != 400 {
		t.Errorf("/why without a URL: status %d, want 400", w.Code)
	}
}

func TestFirstStepsAreOfferedOnce(t *testing.T) {
	var got []Answers
	var offered *Setup
	p := nobody()
	p.Setup = func() *Setup { return offered }
	h := New(p)
	if w := ask(h, "GET", "/setup?token=", "text/html", ""); w.Code != 403 {
		t.Errorf("the first steps when they are not offered: status %d, want 403", w.Code)
	}
	offered = &Setup{Token: "secret", Topics: []Topic{{Name: "ads", What: "Ads", Lists: []TopicList{{"easylist", "ads", "2 MB", "GPL-3.0"}}}},
		Write: func(_ context.Context, a Answers) (*SetUp, error) {
			if a.Contact == "nobody" {
				return nil, &BadChange{errors.New("nobody cannot be asked")}
			}
			got = append(got, a)
			return &SetUp{File: "shuultuur.yaml", Steps: []string{"Open a page."}, Look: func(context.Context, netip.Addr) []SetupTest {
				return []SetupTest{{Text: "Port 53 is taken.", Bad: true}, {Text: "It is fetched.", Wait: true, Fetching: FetchProgress{3 << 20, 12 << 20}}}
			}}, nil
		}}
	const good = "token=secret&who=school&topic=ads&way=proxy&network=yes"
	for _, c := range []struct {
		method, path, form string
		status             int
		says               string
	}{
		{"GET", "/setup", "", 403, "not good"},
		{"GET", "/setup?token=guess", "", 403, "not good"},
		{"GET", "/setup?token=secret", "", 200, "GPL-3.0"},
		{"POST", "/setup", "who=school&way=both", 403, "not good"},
		{"POST", "/setup", "token=secret&who=zoo&way=both", 400, "who the network is for"},
		{"POST", "/setup", "token=secret&who=home&way=pigeon", 400, "how devices reach"},
		{"POST", "/setup", good + "&contact=nobody", 400, "nobody cannot be asked"},
		{"GET", "/setup/done", "", 404, "not found"},
		{"POST", "/setup", good, 303, ""},
		{"GET", "/setup/done", "", 200, "Port 53 is taken."},
		{"GET", "/setup/done", "", 200, `not yet</span> It is fetched. <span class="tag pass">3.0 MiB / 12.0 MiB, 25 %</span>`},
		{"POST", "/setup", good, 403, "used already"},
		{"GET", "/setup?token=secret", "", 403, "used already"},
	} {
		if w := ask(h, c.method, c.path, "text/html", c.form); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s: status %d, want %d with %q: %s", c.method, c.path, c.form, w.Code, c.status, c.says, w.Body)
		}
	}
	if len(got) != 1 || got[0].Who != "school" || !got[0].Proxy || got[0].DNS || !got[0].Network || got[0].Certificate || !slices.Equal(got[0].Topics, []string{"ads"}) {
		t.Errorf("the answers are %+v", got)
	}
}

func TestTheSystemPageNamesTheStateInWords(t *testing.T) {
	p := nobody()
	p.System = &System{State: func() map[string]any { return nil }}
	for state, want := range map[string]string{"alone": "of this node alone", "shared": "shared with other nodes", "degraded": "Redis is lost"} {
		p.Health = func() Health { return Health{State: state, Started: "2026-03-04T05:06:07Z"} }
		page := ask(New(p), "GET", "/system", "text/html", "").Body.String()
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Local().Format("2006-01-02 15:04:05")
		if !strings.Contains(page, "<dd>"+want+"</dd>") || !strings.Contains(page, "<dd>"+at+"</dd>") {
			t.Errorf("%s: the page lacks %q or %s", state, want, at)
		}
	}
}

func TestTheStartPageSaysWhatIsLowOnTheMachine(t *testing.T) {
	p := nobody()
	p.Remarks = func() []Remark {
		return []Remark{{About: "open files", Found: "1024", Wanted: "65536", Why: "They run out.", Mend: []string{"ulimit -n 65536"}}}
	}
	page := ask(New(p), "GET", "/", "text/html", "").Body.String()
	for _, want := range []string{"Warnings about this machine: 1", "open files: 1024", "65536", "They run out.", "ulimit -n 65536"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	p.Remarks = func() []Remark { return nil }
	if page := ask(New(p), "GET", "/", "text/html", "").Body.String(); strings.Contains(page, "this machine") {
		t.Error("the page warns about a machine that is fine")
	}
}
