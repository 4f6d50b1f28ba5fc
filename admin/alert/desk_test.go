//go:build !small

package alert

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

var quietLog = slog.New(slog.DiscardHandler)

func transaction(user, addr, theme, id string, at time.Time, groups ...string) *filter.Transaction {
	return &filter.Transaction{ID: id, Start: at, Client: filter.Client{User: user, Addr: netip.MustParseAddr(addr), Groups: groups},
		Host: "www.google.com", URL: "https://www.google.com/search?q=want+to+die&ie=utf8",
		Record: filter.Record{Monitored: []filter.Reason{{Policy: "pupils", Rule: "other"}, {Policy: "pupils", Rule: "alert/" + theme + "/search"}}}}
}

func watch(t *testing.T, c Config, s *mail.Sender) *Watch {
	t.Helper()
	w, err := New(c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAThresholdMakesOneAlertThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "alerts.json")
		d, err := OpenDesk(file, quietLog)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		d.Use(watch(t, Config{Themes: map[string]*Theme{"self-harm": {After: 3, Within: setting.Duration(time.Hour), Severity: High}, "drugs": nil}}, nil))
		go func() { ended <- d.Run(ctx) }()
		add := func(user, theme, id string) {
			d.Add(transaction(user, "10.1.2.3", theme, id, time.Now(), "class-7a"))
			synctest.Wait()
		}
		add("anna", "self-harm", "a1")
		add("ben", "self-harm", "b1")
		time.Sleep(50 * time.Minute)
		add("anna", "self-harm", "a2")
		if n := len(d.All()); n != 0 {
			t.Fatalf("there are %d alerts below the threshold, want none", n)
		}
		time.Sleep(20 * time.Minute) // the first match is too long ago by now
		add("anna", "self-harm", "a3")
		if n := len(d.All()); n != 0 {
			t.Fatalf("there are %d alerts below the threshold, want none", n)
		}
		add("anna", "self-harm", "a4")
		add("anna", "self-harm", "a5")
		all := d.All()
		if len(all) != 1 || all[0].Matches != 4 || all[0].User != "anna" || all[0].State != Open || strings.Join(all[0].Events, " ") != "a2 a3 a4 a5" {
			t.Fatalf("the alerts are %+v, want one of anna with 4 matches", all)
		}
		if e := strings.Join(all[0].Evidence, "|"); e != "search: want to die" {
			t.Errorf("the evidence is %q, want it once", e)
		}
		add("ben", "drugs", "b2") // from the first match on
		add("ben", "unknown", "b3")
		if all := d.All(); len(all) != 2 || all[0].Severity != High || all[1].Theme != "drugs" {
			t.Fatalf("the alerts are %+v, want two", all)
		}
		if err := d.Settle(all[0].ID, "lead", Closed, " "); err == nil {
			t.Error("Settle closes an alert without a note")
		}
		if err := d.Settle(all[0].ID, "lead", Closed, "talked to her and ben"); err != nil {
			t.Error(err)
		}
		add("anna", "self-harm", "a6") // after the alert was closed, counting begins again
		if n := len(d.All()); n != 2 {
			t.Errorf("there are %d alerts, want 2", n)
		}
		if n, err := d.Erase(ctx, event.Person{Users: []string{"ben"}}, false); n != 1 || err != nil {
			t.Errorf("Erase removed %d alerts, %v; want 1", n, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), "ben") || !strings.Contains(string(text), "closed") {
			t.Errorf("after the erasure the file has %s, %v", text, err)
		}
		again, err := OpenDesk(file, quietLog)
		if err != nil || len(again.All()) != 1 || again.All()[0].Notes[0].By != "lead" {
			t.Errorf("the file was read as %v, %v", again, err)
		}
	})
}

// A mailbox is a small mail server. It offers no encryption.
type mailbox struct {
	addr string
	got  chan string
}

func newMailbox(t *testing.T) *mailbox {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{l.Addr().String(), make(chan string, 10)}
	ended := make(chan bool)
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.talk(c)
		}
	}()
	return m
}

func (m *mailbox) talk(c net.Conn) {
	defer c.Close()
	fmt.Fprint(c, "220 mail ready\r\n")
	r, all := bufio.NewReader(c), ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		all += line
		switch word := strings.ToUpper(line[:4]); word {
		case "EHLO":
			fmt.Fprint(c, "250-mail\r\n250 8BITMIME\r\n")
		case "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			for line != ".\r\n" {
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
				all += line
			}
			fmt.Fprint(c, "250 taken\r\n")
			m.got <- all
		case "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}

func TestAlertsReachThoseWhomTheSettingsName(t *testing.T) {
	type posted struct {
		path, body string
		header     http.Header
	}
	got := make(chan posted, 20)
	fails := 1
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/slack" && fails > 0 {
			fails--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		got <- posted{r.URL.Path, string(b), r.Header}
	}))
	defer hook.Close()
	box := newMailbox(t)
	sender, err := mail.New(mail.Config{Server: "smtp://" + box.addr, From: "Filter <filter@school.example>"})
	if err != nil {
		t.Fatal(err)
	}
	high := High
	w := watch(t, Config{Link: "https://filter.example:8081/", Themes: map[string]*Theme{"self-harm": {Severity: High}, "drugs": nil},
		To: []Route{
			{Groups: []string{"class-7a"}, Mail: setting.OneOrMore[string]{"Lead <lead@school.example>"}},
			{Groups: []string{"class-8b"}, Webhook: setting.OneOrMore[Webhook]{{URL: hook.URL + "/never"}}},
			{Themes: []string{"drugs"}, Webhook: setting.OneOrMore[Webhook]{{URL: hook.URL + "/never"}}},
			{Severity: &high, Quiet: policy.Schedule{{Hours: "00:00-24:00"}}, Webhook: setting.OneOrMore[Webhook]{{URL: hook.URL + "/json"}, {URL: hook.URL + "/slack", Format: "slack"},
				{URL: hook.URL + "/teams", Format: "teams"}, {URL: hook.URL + "/ntfy", Format: "ntfy", Token: "tk_1"}, {URL: hook.URL + "/bot1:x/sendMessage", Format: "telegram", Chat: "-100"}}},
		}}, sender)
	d, err := OpenDesk(filepath.Join(t.TempDir(), "alerts.json"), quietLog)
	if err != nil {
		t.Fatal(err)
	}
	d.Use(w)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	d.Add(transaction("Бат <&>", "10.1.2.3", "self-harm", "x", time.Now(), "class-7a"))
	deadline := time.After(30 * time.Second)
	seen := map[string]posted{}
	for len(seen) < 4 { // slack has refused the first message
		select {
		case p := <-got:
			seen[p.path] = p
		case <-deadline:
			t.Fatalf("only the messages %v arrived", seen)
		}
	}
	select {
	case m := <-box.got:
		for _, want := range []string{"RCPT TO:<lead@school.example>", "From: \"Filter\" <filter@school.example>", "Subject: =?UTF-8?q?Self-harm:", "Auto-Submitted: auto-generated"} {
			if !strings.Contains(m, want) {
				t.Errorf("the mail lacks %q: %s", want, m)
			}
		}
	case <-deadline:
		t.Fatal("no mail arrived")
	}
	var j struct {
		Theme, Severity, User, Link string
		Groups                      []string
	}
	id := d.All()[0].ID
	if err := json.Unmarshal([]byte(seen["/json"].body), &j); err != nil || j.Theme != "self-harm" || j.User != "Бат <&>" || j.Link != "https://filter.example:8081/alerts/"+id || len(j.Groups) != 1 {
		t.Errorf("the json message is %s, %v", seen["/json"].body, err)
	}
	var card struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type string
				Body []struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(seen["/teams"].body), &card); err != nil || card.Type != "message" || card.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" || card.Attachments[0].Content.Type != "AdaptiveCard" || !strings.Contains(card.Attachments[0].Content.Body[0].Text, "Бат") {
		t.Errorf("the teams message is %s, %v", seen["/teams"].body, err)
	}
	n := seen["/ntfy"]
	if n.header.Get("Priority") != "5" || !strings.HasPrefix(n.header.Get("Title"), "=?utf-8?q?") || !strings.Contains(n.body, "Бат") || n.header.Get("Authorization") != "Bearer tk_1" || n.header.Get("Click") == "" {
		t.Errorf("the ntfy message is %v %s", n.header, n.body)
	}
	if got, want := n.header.Get("Actions"), `view, "Open the page", "https://filter.example:8081/alerts/`+id+`", clear=true`; got != want {
		t.Errorf("the actions of the ntfy message are %s, want %s", got, want)
	}
	var bot struct {
		Preview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
		Markup struct {
			Keyboard [][]struct{ Text, URL string } `json:"inline_keyboard"`
		} `json:"reply_markup"`
	}
	if err := json.Unmarshal([]byte(seen["/bot1:x/sendMessage"].body), &bot); err != nil || !bot.Preview.Disabled || len(bot.Markup.Keyboard) != 1 || bot.Markup.Keyboard[0][0].Text != "Open the page" || !strings.HasSuffix(bot.Markup.Keyboard[0][0].URL, "/alerts/"+id) {
		t.Errorf("the telegram message has no button: %s", seen["/bot1:x/sendMessage"].body)
	}
	if b := seen["/bot1:x/sendMessage"].body; !strings.Contains(b, `"chat_id":"-100"`) || !strings.Contains(b, `"text":"Self-harm: Бат <&> (high)`) {
		t.Errorf("the telegram message is %s", b)
	}
	for _, p := range seen {
		if strings.Contains(p.body, "want to die") {
			t.Errorf("the message to %s reveals the search: %s", p.path, p.body)
		}
	}
	d.mu.Lock() // the next attempt is due
	for _, r := range d.receivers {
		r.next = 0
	}
	d.mu.Unlock()
	select {
	case p := <-got:
		if p.path != "/slack" || !strings.Contains(p.body, "Бат &lt;&amp;&gt;") || !strings.Contains(p.body, `"type":"mrkdwn"`) {
			t.Errorf("the second attempt is %s %s, want the slack message", p.path, p.body)
		}
	case <-deadline:
		t.Fatal("the slack message was not sent again")
	}
}

func TestQuietHoursHoldBackAllButTheMostSevere(t *testing.T) {
	w := watch(t, Config{Themes: map[string]*Theme{"drugs": nil, "self-harm": {Severity: High}},
		To: []Route{{Quiet: policy.Schedule{{Hours: "20:00-07:30", Zone: "UTC"}, {Days: "sat,sun", Zone: "UTC"}}, Webhook: setting.OneOrMore[Webhook]{{URL: "http://127.0.0.1/"}}}}}, nil)
	for _, x := range []struct{ at, due string }{
		{"2026-11-23T10:00:00Z", "2026-11-23T10:00:00Z"}, // Monday
		{"2026-11-23T20:00:10Z", "2026-11-24T07:30:00Z"},
		{"2026-11-27T21:00:00Z", "2026-11-30T07:30:00Z"}, // Friday to Monday
	} {
		at, _ := time.Parse(time.RFC3339, x.at)
		if s := w.sendings(&Alert{Theme: "drugs"}, at); len(s) != 1 || s[0].Due.Format(time.RFC3339) != x.due {
			t.Errorf("at %s: %+v, want %s", x.at, s, x.due)
		}
		if s := w.sendings(&Alert{Theme: "self-harm", Severity: High}, at); !s[0].Due.Equal(at) {
			t.Errorf("at %s an alert of high severity waits until %v", x.at, s[0].Due)
		}
	}
}

// Quiet hours end by the clock of their zone: past midnight, when clocks are set back or
// forward, and after holidays.
func TestQuietHoursEndOnTheClock(t *testing.T) {
	night := policy.Schedule{{Hours: "22:00-07:00", Zone: "Europe/Berlin"}}
	early := policy.Schedule{{Hours: "00:30-02:30", Zone: "Europe/Berlin"}}
	holidays := policy.Schedule{{Dates: "2026-12-21..2027-01-06", Zone: "Europe/Berlin"}, {Hours: "22:00-07:00", Zone: "Europe/Berlin"}}
	for _, x := range []struct {
		quiet   policy.Schedule
		at, due string
	}{
		{night, "2026-11-23T21:30:00Z", "2026-11-24T06:00:00Z"},
		{night, "2026-11-23T23:30:00Z", "2026-11-24T06:00:00Z"},    // after midnight
		{night, "2026-11-24T06:00:00Z", "2026-11-24T06:00:00Z"},    // the first minute that is not quiet
		{night, "2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"},    // one hour longer, because clocks are set back
		{night, "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"},    // one hour shorter
		{early, "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},    // 02:30 does not exist: the hours end when 02:00 becomes 03:00
		{holidays, "2026-12-22T12:00:00Z", "2027-01-07T06:00:00Z"}, // more than a week, and the following night
	} {
		w := watch(t, Config{Themes: map[string]*Theme{"drugs": nil},
			To: []Route{{Quiet: x.quiet, Webhook: setting.OneOrMore[Webhook]{{URL: "http://127.0.0.1/"}}}}}, nil)
		at, _ := time.Parse(time.RFC3339, x.at)
		if s := w.sendings(&Alert{Theme: "drugs"}, at); len(s) != 1 || s[0].Due.UTC().Format(time.RFC3339) != x.due {
			t.Errorf("%+v at %s: %+v, want %s", x.quiet, x.at, s, x.due)
		}
	}
}

func TestMistakesOfTheSettingsAreNamed(t *testing.T) {
	for key, c := range map[string]Config{
		"themes.hobbies":          {Themes: map[string]*Theme{"hobbies": nil}},
		"themes.x/y":              {Themes: map[string]*Theme{"x/y": {Search: []string{"a"}}}},
		"themes.drugs.after":      {Themes: map[string]*Theme{"drugs": {After: -1}}},
		"link":                    {Link: "filter"},
		"to[0]":                   {To: []Route{{}}},
		"to[0].mail":              {To: []Route{{Mail: setting.OneOrMore[string]{"a@b.example"}}}},
		"to[0].themes[0]":         {To: []Route{{Themes: []string{"x"}, Webhook: setting.OneOrMore[Webhook]{{URL: "http://a"}}}}},
		"to[0].webhook[0].url":    {To: []Route{{Webhook: setting.OneOrMore[Webhook]{{URL: "a"}}}}},
		"to[0].webhook[0].format": {To: []Route{{Webhook: setting.OneOrMore[Webhook]{{URL: "http://a", Format: "fax"}}}}},
		"to[0].webhook[0].chat":   {To: []Route{{Webhook: setting.OneOrMore[Webhook]{{URL: "http://a", Format: "telegram"}}}}},
		"to[0].webhook[0].key":    {To: []Route{{Webhook: setting.OneOrMore[Webhook]{{URL: "http://a", Key: "guess me"}}}}},
		"themes":                  {},
	} {
		if c.Themes == nil && key != "themes" {
			c.Themes = map[string]*Theme{"drugs": nil}
		}
		if _, err := New(c, nil, nil); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// TestAButtonThatTelegramRefusesIsLeftOut: it would refuse the whole message.
func TestAButtonThatTelegramRefusesIsLeftOut(t *testing.T) {
	for link, want := range map[string]bool{"": false, "http://localhost:8081/": false, "https://filter:8081/": false, "http://192.168.1.2:8081/": true, "https://filter.example/": true} {
		w := watch(t, Config{Link: link, Themes: map[string]*Theme{"drugs": nil}}, nil)
		m := w.message(nil, "1", []*Alert{{ID: "a", Theme: "drugs", User: "anna"}})
		body, _, err := w.encode(&Webhook{URL: "http://a", Format: "telegram", Chat: "1"}, m, time.Now())
		if err != nil || strings.Contains(string(body), "inline_keyboard") != want {
			t.Errorf("link %q: %s, %v", link, body, err)
		}
	}
}
