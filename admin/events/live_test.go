package events_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/exception"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
)

func TestLivePagesGetWhatTheirFilterWants(t *testing.T) {
	g := &admintest.Growing{}
	g.Add(event.Row{Host: "old.example"})
	p := admintest.Nobody()
	p.Events = &web.Record{Reader: g}
	s := httptest.NewServer(admin.New(p))
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
				g.Add(event.Row{Host: "tea.example"})
				g.Add(event.Row{Host: "<b>.example", Action: filter.Block})
			}
		}
	}()
	wait.Wait()
	cancel()
	<-stop
	if w := admintest.Ask(admin.New(p), "GET", "/events/live?filter=nofield:x", "", ""); w.Code != 400 {
		t.Errorf("a stream with a wrong filter: status %d, want 400", w.Code)
	}
}

// A live page ends when its session ends, when its account may see less, and when a second
// person's agreement ends. It does not keep its session alive.
func TestALivePageEndsWithTheRightToSeeIt(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		do   func(h *admintest.House)
		ends bool
	}{
		"nothing happens": {"/events/live", func(*admintest.House) {}, false},
		"the session is ended": {"/events/live", func(h *admintest.House) {
			h.Parts.Accounts.End(h.Parts.Accounts.Sessions("the-safeguarding-lead")[0].ID, "")
		}, true},
		"the account is removed": {"/events/live", func(h *admintest.House) { h.Parts.Accounts.Remove("the-safeguarding-lead") }, true},
		"the session is idle":    {"/events/live", func(*admintest.House) { time.Sleep(account.DefaultRules.Idle - time.Minute) }, true},
		"the agreement ends":     {"/events/live?filter=user:anna", func(h *admintest.House) { h.Ask(account.Owner, "POST", "/looks/end", "id="+h.Looks()[0].ID) }, true},
		"the agreement holds":    {"/events/live?filter=user:anna", func(*admintest.House) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admintest.NewHouse(t)
				if strings.Contains(c.path, "anna") {
					h.Rules.TwoPeople = true
					h.Ask(account.Lead, "POST", "/looks", "whom=anna&reason=asked+for")
					if w := h.Ask(account.Owner, "POST", "/looks/agree", "id="+h.Looks()[0].ID); w.Code != 200 {
						t.Fatalf("agreeing to a look: status %d, %s", w.Code, w.Body)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := make(chan int, 1)
				time.Sleep(time.Minute) // so long after the last use
				go func() {
					over <- h.Ask(account.Lead, "GET", c.path, "", func(r *http.Request) { *r = *r.WithContext(ctx) }).Code
				}()
				time.Sleep(3 * time.Second)
				if len(over) > 0 {
					t.Fatalf("a live page ended while its session was valid: %v", <-over)
				}
				c.do(h)
				time.Sleep(2 * time.Second)
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
	p := admintest.Nobody()
	row := event.Row{ID: "x1", Seq: 1, Client: netip.MustParseAddr("10.0.0.1"), User: "anna", Host: "www.bet.example", URL: "http://www.bet.example/odds", Action: filter.Block, Rule: "betting",
		Findings: `[{"check":"category","category":"gambling","evidence":"own.txt:1 <bet.example>"}]`}
	p.Events = &web.Record{Reader: &admintest.Fake{Rows: []event.Row{row}}}
	var asked why.Question
	p.Explain = func(_ context.Context, q why.Question) (*why.Explanation, error) {
		asked = q
		return &why.Explanation{URL: q.URL, Action: "allow", Rule: "opened"}, nil
	}
	p.Decisions = &exception.Decisions{All: func() []policy.Decision { return nil }}
	h := admin.New(p)
	page := admintest.Ask(h, "GET", "/events/x1", "text/html", "").Body.String()
	for _, want := range []string{"own.txt:1 &lt;bet.example&gt;", "betting", "opened", `<option value="bet.example">`, `value="anna"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if asked.URL != row.URL || asked.User != "anna" || asked.Client != row.Client {
		t.Errorf("the page asked why with %+v", asked)
	}
	if w := admintest.Ask(h, "GET", "/events/x1", "", ""); !strings.Contains(w.Body.String(), `"host":"www.bet.example"`) {
		t.Errorf("the event as JSON is %s", w.Body)
	}
	p.Events = &web.Record{Reader: &admintest.Fake{}}
	if w := admintest.Ask(admin.New(p), "GET", "/events/none", "text/html", ""); w.Code != 404 {
		t.Errorf("an unknown event: status %d, want 404", w.Code)
	}
}
