package alert

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/test/race"
)

// A taker is a receiver of webhooks whose answers a function makes.
type taker struct {
	mu     sync.Mutex
	answer func(n int, users []string) *http.Response // nil: the connection breaks
	asked  []time.Time
	took   map[string][]string // the users of which a message told, by its identifier
	order  []string            // users
}

func (x *taker) RoundTrip(r *http.Request) (*http.Response, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var m struct {
		User   string
		Alerts []struct{ User string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	users := []string{m.User}
	if m.Alerts != nil {
		users = nil
		for _, a := range m.Alerts {
			users = append(users, a.User)
		}
	}
	x.asked = append(x.asked, time.Now())
	res := x.answer(len(x.asked), users)
	if res == nil || res.StatusCode == 200 || res.StatusCode == 299 {
		id := r.Header.Get("Webhook-Id")
		if was, known := x.took[id]; !known {
			x.order = append(x.order, users...)
		} else if !slices.Equal(was, users) {
			return nil, fmt.Errorf("message %s was about %q and is about %q", id, was, users)
		}
		x.took[id] = users
	}
	if res == nil {
		return nil, errors.New("the connection is broken")
	}
	return res, nil
}

func status(code int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("so it is"))}
}

// desk starts a desk that tells one webhook, in a bubble.
func desk(t *testing.T, file string, x *taker, r Route) (d *Desk, stop func()) {
	t.Helper()
	d, err := OpenDesk(file, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	d.now = func() time.Time { return time.Now().Round(0).Add(ahead) }
	if x.took == nil {
		x.took = map[string][]string{}
	}
	r.Webhook = setting.OneOrMore[Webhook]{{URL: "http://hook.example/"}}
	w := watch(t, Config{Themes: map[string]*Theme{"drugs": nil}, To: []Route{r}, Keep: setting.Duration(24 * time.Hour)}, nil)
	w.web = x
	d.Use(w)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return d, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func raise(d *Desk, user string) {
	d.Add(transaction(user, "10.1.2.3", "drugs", user, time.Now().Add(ahead)))
}

// ahead is how far the clock is ahead of that of a bubble, which shows less than the date of the program.
const ahead = 30 * 365 * 24 * time.Hour

// TestAThousandAlertsReachAReceiverOfOneASecond: as digests, in order, none twice, also while it takes
// messages and loses its answers.
func TestAThousandAlertsReachAReceiverOfOneASecond(t *testing.T) {
	race.Without(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		x := &taker{}
		x.answer = func(n int, _ []string) *http.Response {
			since := time.Since(last)
			switch last = time.Now(); {
			case since < time.Second:
				return status(429, "Retry-After", "1")
			case n%5 == 0:
				return nil // it has taken the message, but nobody knows
			}
			return status(200)
		}
		d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{})
		defer stop()
		var want []string
		for i := range 1000 {
			user := fmt.Sprintf("u%03d", i)
			want = append(want, user)
			raise(d, user)
			if time.Sleep(300 * time.Millisecond); i%100 == 99 {
				time.Sleep(5 * time.Second)
			}
		}
		time.Sleep(15 * time.Minute)
		x.mu.Lock()
		defer x.mu.Unlock()
		if !slices.Equal(x.order, want) {
			t.Errorf("told of %d alerts in %d messages, want each of 1000 once and in order", len(x.order), len(x.took))
		}
		if n := len(x.took); n > 400 {
			t.Errorf("%d messages for 1000 alerts, want digests", n)
		}
		for _, a := range d.All() {
			if a.waits() {
				t.Fatalf("alert %s counts as not told", a.User)
			}
		}
		if all := d.Problems(); len(all) > 0 {
			t.Errorf("problems: %q", all)
		}
	})
}

func TestAReceiverSaysWhenItWantsMore(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		answer []*http.Response // the last one is repeated
		want   []time.Duration  // between attempts
	}{
		"seconds":                 {[]*http.Response{status(429, "Retry-After", "7"), status(200)}, []time.Duration{7 * time.Second}},
		"with another status":     {[]*http.Response{status(503, "Retry-After", "120"), status(200)}, []time.Duration{2 * time.Minute}},
		"none":                    {[]*http.Response{status(429, "Retry-After", "0"), status(200)}, []time.Duration{10 * time.Second}},
		"a moment":                {[]*http.Response{status(429, "Retry-After", "Fri, 01 May 2026 12:00:30 GMT", "Date", "Fri, 01 May 2026 12:00:00 GMT"), status(200)}, []time.Duration{30 * time.Second}},
		"a moment that is over":   {[]*http.Response{status(429, "Retry-After", "Fri, 01 May 2026 12:00:00 GMT", "Date", "Fri, 01 May 2026 12:00:30 GMT"), status(200)}, []time.Duration{10 * time.Second}},
		"a year":                  {[]*http.Response{status(429, "Retry-After", "31536000"), status(200)}, []time.Duration{day}},
		"nonsense":                {[]*http.Response{status(429, "Retry-After", "soon"), status(200)}, []time.Duration{10 * time.Second}},
		"nothing":                 {[]*http.Response{status(500)}, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}},
		"nothing, but it is back": {[]*http.Response{status(500), status(500), status(200)}, []time.Duration{10 * time.Second, 20 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &taker{}
				x.answer = func(n int, _ []string) *http.Response {
					r := *tt.answer[min(n, len(tt.answer))-1]
					r.Body = io.NopCloser(strings.NewReader(""))
					return &r
				}
				d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{})
				defer stop()
				raise(d, "anna")
				time.Sleep(25 * time.Hour)
				x.mu.Lock()
				defer x.mu.Unlock()
				for i, want := range tt.want {
					if len(x.asked) < i+2 {
						t.Fatalf("%d attempts", len(x.asked))
					}
					if got := x.asked[i+1].Sub(x.asked[i]); got < want || got > want+2*time.Second {
						t.Errorf("after attempt %d it was asked after %v, want %v", i+1, got, want)
					}
				}
				if ok := tt.answer[len(tt.answer)-1].StatusCode == 200; ok && len(x.asked) != len(tt.want)+1 {
					t.Errorf("%d attempts, want %d", len(x.asked), len(tt.want)+1)
				}
			})
		})
	}
}

// TestNothingIsGivenUp: what could not be told for days is told when the receiver is back.
func TestNothingIsGivenUp(t *testing.T) {
	race.Without(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "alerts.json")
		away := true
		x := &taker{}
		x.answer = func(int, []string) *http.Response {
			if away {
				return status(503)
			}
			return status(200)
		}
		d, stop := desk(t, file, x, Route{})
		var want []string
		for day := range 6 {
			user := fmt.Sprintf("u%02d", day)
			want = append(want, user)
			raise(d, user)
			if time.Sleep(24 * time.Hour); day == 1 { // a restart
				if all := d.Problems(); len(all) != 1 || !strings.Contains(all[0].Text, "wait because a message was not taken") {
					t.Errorf("problems: %q", all)
				}
				stop()
				d, stop = desk(t, file, x, Route{})
			}
		}
		away = false
		time.Sleep(time.Hour + time.Minute)
		stop()
		if !slices.Equal(x.order, want) || len(x.took) != 2 {
			t.Errorf("told in %d messages: %q; want the first and a digest of the others", len(x.took), x.order)
		}
	})
}

// TestAStepOfTheClockDelaysNoMessage: messages that wait are told as they were before it.
func TestAStepOfTheClockDelaysNoMessage(t *testing.T) {
	t.Parallel()
	const hour, day = time.Hour, 24 * time.Hour
	for _, step := range []time.Duration{hour, -hour, day, -day, 365 * day, -365 * day, -56 * 365 * day} {
		for _, back := range []time.Duration{10 * time.Second, 0} {
			t.Run(fmt.Sprint(step, " for ", back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := &taker{}
					x.answer = func(n int, _ []string) *http.Response {
						if n <= 2 {
							return status(503)
						}
						return status(200)
					}
					d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{})
					defer stop()
					raise(d, "anna")
					time.Sleep(2 * time.Second)
					set := func(by time.Duration) {
						d.mu.Lock()
						defer d.mu.Unlock()
						d.now = func() time.Time { return time.Now().Round(0).Add(ahead + by) }
					}
					set(step)
					raise(d, "ben")
					if back > 0 {
						time.Sleep(back)
						set(0)
					}
					time.Sleep(2 * time.Minute)
					x.mu.Lock()
					defer x.mu.Unlock()
					if !slices.Equal(x.order, []string{"anna", "ben"}) {
						t.Errorf("told of %q, want both", x.order)
					}
				})
			})
		}
	}
}

// TestWhatIsRefusedOfItselfStopsNothing: a message that a receiver will never take waits behind the others,
// and a digest that is too large becomes smaller.
func TestWhatIsRefusedOfItselfStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &taker{}
		x.answer = func(_ int, users []string) *http.Response {
			if len(users) > 10 {
				return status(413)
			}
			if slices.Contains(users, "u00") {
				return status(400)
			}
			return status(200)
		}
		d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{})
		defer stop()
		for i := range 60 {
			raise(d, fmt.Sprintf("u%02d", i))
		}
		time.Sleep(2 * time.Hour)
		x.mu.Lock()
		defer x.mu.Unlock()
		slices.Sort(x.order)
		if len(x.order) != 59 || x.order[0] != "u01" {
			t.Errorf("told of %d: %q, want all but u00", len(x.order), x.order)
		}
		if all := d.Problems(); len(all) != 1 || !strings.Contains(all[0].Text, "1 wait because") {
			t.Errorf("problems: %q", all)
		}
	})
}

// TestClosedAlertsOutliveAWrongClock: one reading of the clock drops nothing.
func TestClosedAlertsOutliveAWrongClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &taker{answer: func(int, []string) *http.Response { return status(200) }}
		d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{})
		defer stop()
		raise(d, "anna")
		time.Sleep(2 * time.Hour)
		if err := d.Settle(d.All()[0].ID, "lead", Closed, "spoken to"); err != nil {
			t.Fatal(err)
		}
		set := func(by time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.now = func() time.Time { return time.Now().Round(0).Add(ahead + by) }
		}
		set(10 * 365 * 24 * time.Hour)
		time.Sleep(time.Minute)
		if n := len(d.All()); n != 1 {
			t.Fatal("the alert was dropped by a clock that is ten years ahead")
		}
		if all := d.Problems(); len(all) != 1 || !strings.Contains(all[0].Text, "the clock is doubtful") {
			t.Errorf("problems: %q", all)
		}
		set(0)
		time.Sleep(3 * time.Hour)
		if all := d.Problems(); len(all) != 0 {
			t.Errorf("problems once the clock is right: %q", all)
		}
		time.Sleep(25 * time.Hour)
		if n := len(d.All()); n != 0 {
			t.Error("the alert is kept for longer than a day")
		}
	})
}

func TestMessagesAreSigned(t *testing.T) {
	t.Parallel()
	w := watch(t, Config{Themes: map[string]*Theme{"drugs": nil}}, nil)
	m := w.message(nil, "MSG", []*Alert{{ID: "A", Theme: "drugs", User: "anna"}})
	for _, format := range []string{"", "slack", "ntfy"} {
		h := &Webhook{URL: "http://a", Format: format, Key: "0123456789abcdef01234567"}
		body, header, err := w.encode(h, m, time.Unix(1_800_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte(h.Key))
		mac.Write([]byte("MSG.1800000000." + string(body)))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); header.Get("Webhook-Signature") != want || header.Get("Webhook-Id") != "MSG" || header.Get("Webhook-Timestamp") != "1800000000" {
			t.Errorf("format %q: %v, want the signature %s", format, header, want)
		}
	}
	_, header, _ := w.encode(&Webhook{URL: "http://a"}, m, time.Now())
	if header.Get("Webhook-Id") != "MSG" || header.Get("Webhook-Signature") != "" {
		t.Errorf("without a key: %v", header)
	}
}

// TestADigestNamesTheFirstAndCountsAll in the text that people read.
func TestADigestNamesTheFirstAndCountsAll(t *testing.T) {
	t.Parallel()
	w := watch(t, Config{Link: "https://filter.example", Themes: map[string]*Theme{"drugs": nil}}, nil)
	var all []*Alert
	for i := range 60 {
		a := &Alert{ID: "A", Theme: "drugs", User: fmt.Sprintf("u%d", i%4)}
		if i == 30 {
			a.Severity = High
		}
		all = append(all, a)
	}
	m := w.message(nil, "MSG", all)
	if m.title != "Alerts: 60; people: 4" || m.severity != High || m.link != "https://filter.example/alerts" {
		t.Errorf("the digest is %+v", m)
	}
	if n := strings.Count(m.text, "Drugs: u"); n != maxListed || !strings.Contains(m.text, "… and 40 more") {
		t.Errorf("the text names %d alerts: %s", n, m.text)
	}
}
