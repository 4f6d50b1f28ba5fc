package exception_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/exception"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
)

func TestSitesAreOpenedAndBlockedByHand(t *testing.T) {
	var created []policy.Decision
	p := admintest.Nobody()
	p.Decisions = &exception.Decisions{All: func() []policy.Decision { return created }, Set: func(d policy.Decision, _ netip.Addr) error {
		if d.Who == "stranger" {
			return &web.BadChange{Err: errors.New("who is that?")}
		}
		created = append(created, d)
		return nil
	}}
	p.Judge = func(_ context.Context, t web.Trial) (*web.Effect, error) {
		if d := t.Decisions[0]; d.Who == "stranger" {
			return nil, &web.BadChange{Err: errors.New("who is that?")}
		}
		return &web.Effect{Judged: 7, Changed: 3}, nil
	}
	h := admin.New(p)
	for form, want := range map[string]string{
		"what=block&site=tea.example&dry_run=true":              `"changed":3`,
		"what=end&site=tea.example&dry_run=1":                   `"judged":7`,
		"what=block&site=tea.example&who=stranger&dry_run=true": "who is that?",
		"what=smash&site=tea.example&dry_run=true":              "smash",
	} {
		if w := admintest.Ask(h, "POST", "/rulings", "application/json", form); !strings.Contains(w.Body.String(), want) || len(created) > 0 {
			t.Errorf("the effect of %s: status %d, %s; made %v", form, w.Code, w.Body, created)
		}
	}
	p.Judge = nil // no effect has to be seen first
	h = admin.New(p)
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
		w := admintest.Ask(h, "POST", "/rulings", "text/html", c.form)
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

func TestAServiceIsOpenedWithAllItsHosts(t *testing.T) {
	var made []string
	p := admintest.Nobody()
	p.Decisions = &exception.Decisions{All: func() []policy.Decision { return nil }, Set: func(d policy.Decision, _ netip.Addr) error {
		made = append(made, fmt.Sprintf("%s %s %v", d.Site, d.Who, d.Block))
		return nil
	}}
	var tried int
	p.Judge = func(_ context.Context, t web.Trial) (*web.Effect, error) {
		tried = len(t.Decisions)
		return &web.Effect{Judged: 7}, nil
	}
	h := admin.New(p)
	admintest.Ask(h, "POST", "/rulings", "application/json", "what=open&site=4chan&who=anna&for=1h&dry_run=true")
	if w := admintest.Ask(h, "POST", "/rulings", "application/json", "what=open&site=4chan&who=anna&for=1h"); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := strings.Join(made, ", "); got != "4chan.org anna false, 4channel.org anna false, 4cdn.org anna false" || tried != 3 {
		t.Errorf("made %q, and told the effect of %d decisions", got, tried)
	}
}

// TestTheSameTimesAreOfferedWhereverASiteIsOpened: the panel of a request and the page of exceptions offer a quarter
// of an hour, an hour, today and for good, and each time that they offer is taken.
func TestTheSameTimesAreOfferedWhereverASiteIsOpened(t *testing.T) {
	var made int
	p := admintest.Nobody()
	p.Decisions = &exception.Decisions{All: func() []policy.Decision { return nil }, Set: func(policy.Decision, netip.Addr) error { made++; return nil }}
	row := event.Row{Seq: 2, ID: "one", Client: netip.MustParseAddr("10.0.0.1"), User: "anna", Host: "bet.example", Action: filter.Block}
	p.Events = &web.Record{Reader: &admintest.Fake{Rows: []event.Row{row}}}
	h := admin.New(p)
	field := regexp.MustCompile(`(?s)(?:<select name="for">(.*?)</select>|<legend class="hide">How long</legend>(.*?)</fieldset>)`)
	for _, page := range []string{"/rulings", "/events/one"} {
		body := admintest.Ask(h, "GET", page, "text/html", "").Body.String()
		m := field.FindStringSubmatch(body)
		if m == nil {
			t.Errorf("%s has no field for how long it holds:\n%.3000s", page, body)
			continue
		}
		var times []string
		for _, v := range regexp.MustCompile(`value="([^"]*)"`).FindAllStringSubmatch(m[0], -1) {
			times = append(times, v[1])
			before := made
			if w := admintest.Ask(h, "POST", "/rulings", "application/json", "what=open&site=bet.example&who=anna&for="+v[1]); w.Code != 200 || made != before+1 {
				t.Errorf("%s offers %q, which is answered with status %d: %s", page, v[1], w.Code, w.Body)
			}
		}
		for _, want := range []string{"15m", "1h", "today", ""} {
			if !slices.Contains(times, want) {
				t.Errorf("%s offers %q, without %q", page, times, want)
			}
		}
	}
}
