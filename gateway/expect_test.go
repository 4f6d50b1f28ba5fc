package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/web"
	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
	"shuultuur/policy"
)

const expected = `listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists: {own: {format: domains, path: own.txt, category: own}}
checks: {category: {lists: [own]}}
identity: {addresses: {anna: [10.7.0.1]}, groups: {class-7a: [anna]}}
policies:
  - name: class-7a
    groups: [class-7a]
    rules:
      - {name: lesson, action: block, host: [games.example], schedule: {days: mon-fri, hours: "08:00-13:00"}}
      - {name: own, action: block, category: [own]}
      - {name: help, action: allow, host: [help.example]}
    expect:
%s
  - name: everyone
    rules: [{name: slots, action: warn, host: [slots.example]}]
`

func TestExpectationsAreMetOrNamedByLine(t *testing.T) {
	for _, x := range []struct{ expect, want string }{
		{`{url: [casino.example, "https://www.casino.example/slots?a=1"], as: anna, is: block}`, ""},
		{`{url: casino.example, as: class-7a, is: block}`, ""},
		{`{url: casino.example, is: block}`, ""},
		{`{url: casino.example, as: everyone, is: pass}`, ""},
		{`{url: casino.example, as: 10.9.9.9, is: allow}`, ""},
		{`{url: slots.example, as: 10.9.9.9, is: warn}`, ""},
		{`{url: help.example, is: pass}`, ""},
		{`{url: games.example, at: "mon 10:30", is: block}`, ""},
		{`{url: games.example, at: "sat 10:30", is: pass}`, ""},
		{`{url: games.example, at: "mon 13:00", is: block}`, `:13: policies[0].expect[0]: games.example is expected to be block and is pass: no rule fits`},
		{`{url: casino.example, is: pass}`, `:13: policies[0].expect[0]: casino.example is expected to be pass and is block: rule "own" of policy "class-7a" decides by the category own`},
		{`{url: casino.example, as: nobody, is: pass}`, `:13: policies[0].expect[0].as: "nobody" is not an address`},
		{`{url: "ftp://a", is: pass}`, `:13: policies[0].expect[0].url: "ftp://a" is not an http or https URL`},
		{`{url: ["a.example", "http://a..example/"], is: pass}`, `:13: policies[0].expect[0].url: "http://a..example/" is not the address of a host`},
		{`{url: a.example, is: open}`, `"open" cannot be expected`},
		{`{is: block}`, `nothing to look up`},
		{`{url: a.example, is: block, at: noon}`, `"noon" is not a time`},
	} {
		t.Run(x.expect, func(t *testing.T) {
			file := folder(t, map[string]string{"own.txt": "casino.example\n", "shuultuur.yaml": fmt.Sprintf(expected, "      - "+x.expect)})
			e, done, err := engine.Explain(t.Context(), file)
			if err == nil {
				err = e.Expectations(t.Context())
				done()
			}
			if got := fmt.Sprint(err); x.want == "" && err != nil || !strings.Contains(got, x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

// serving runs a gateway with settings until the test ends.
func serving(t *testing.T, file string) *Gateway {
	t.Helper()
	g, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestASaveThatBreaksAnExpectationIsRefused(t *testing.T) {
	text := fmt.Sprintf(expected, "      - {url: casino.example, is: block}")
	file := folder(t, map[string]string{"own.txt": "casino.example\n", "shuultuur.yaml": text})
	g := serving(t, file)
	bad := strings.Replace(text, "{name: own, action: block", "{name: own, action: allow", 1)
	for _, query := range []string{"?dry_run=true", ""} {
		r, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://"+g.AdminAddr()+"/settings"+query, strings.NewReader(bad))
		r.Header.Set("If-Match", "*")
		if query == "" {
			now, err := http.Get("http://" + g.AdminAddr() + "/settings")
			if err != nil {
				t.Fatal(err)
			}
			now.Body.Close()
			r.Header.Set("If-Match", now.Header.Get("ETag"))
		} else {
			r.Header.Del("If-Match")
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(body), "casino.example is expected to be block and is allow") {
			t.Errorf("PUT /settings%q: status %d, want 422 and the unmet expectation: %s", query, res.StatusCode, body)
		}
	}
	if now, _ := os.ReadFile(file); string(now) != text {
		t.Errorf("refused settings changed the file to %s", now)
	}
	// If the list loses its entry, the gateway runs on and reports it.
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "own.txt"), []byte("other.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := strings.Join(g.health().Problems, "\n"); !strings.Contains(p, "expected to be block and is pass") {
		t.Errorf("/health does not report the unmet expectation: %q", p)
	}
}

// Rows like those of a day at a school: 400 people, 20,000 pages of 1,000 sites.
func day(n int) []event.Row {
	rows := eventtest.Rows(time.Now().UTC().Add(-20*time.Hour).Truncate(time.Microsecond), n)
	for i := range rows {
		r := &rows[i]
		r.Time = rows[0].Time.Add(time.Duration(i) * (19 * time.Hour / time.Duration(n)))
		r.Client = netip.AddrFrom4([4]byte{10, 1, byte(i % 400 / 256), byte(i % 400)})
		if r.URL != "" {
			r.URL = fmt.Sprintf("https://www.site-%d.example.com/articles/2026/01/page-%d.html?ref=home", i%1000, i%20_000)
		}
	}
	return rows
}

// The test asserts what was judged, and only logs the time, which depends on what else the
// machine does. SHUULTUUR_EFFECT=1000000 measures it.
func TestAChangeIsTriedOnManyEvents(t *testing.T) {
	n := 4_000
	if s := os.Getenv("SHUULTUUR_EFFECT"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(expected, "      - {url: casino.example, is: block}")
	file := folder(t, map[string]string{"own.txt": "casino.example\nsite-17.example.com\n", "shuultuur.yaml": text})
	dir := filepath.Join(filepath.Dir(file), "data")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(filepath.Join(dir, "events.db"), 90*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for rows := day(n); len(rows) > 0; rows = rows[min(len(rows), 10_000):] {
		batch := rows[:min(len(rows), 10_000)]
		for i := range batch {
			if strings.HasSuffix(batch[i].Host, "www.site-18.example.com") {
				want++
			}
		}
		if err := store.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	changed := strings.Replace(text, "host: [slots.example]", "host: [slots.example, site-18.example.com]", 1)
	ruled, err := (&pages{gateway: g}).effect(t.Context(), web.Trial{Decisions: []policy.Decision{{Site: "site-18.example.com", Block: true}}})
	if err != nil || ruled.Changed != want || len(ruled.Changes) != 1 || ruled.Changes[0].Is != filter.Block.String() {
		t.Errorf("blocking a site by hand would change %+v, %v; want %d", ruled, err, want)
	}
	if all := g.engine.Load().Decisions.Sites(time.Now()); len(all) > 0 {
		t.Errorf("asking for the effect made the decisions %v", all)
	}
	x, err := (&pages{gateway: g}).effect(t.Context(), web.Trial{Text: []byte(changed)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("judged %d events in %.2f s", x.Judged, x.Took)
	if x.Judged+x.Unknown < int64(n) || x.Changed != want {
		t.Errorf("judged %d of %d events, %d unknown, %d changed; want %d changed", x.Judged, n, x.Unknown, x.Changed, want)
	}
	if len(x.Changes) != 1 || x.Changes[0].Is != filter.Warn.String() || x.Changes[0].Count != want {
		t.Errorf("the changes are %+v", x.Changes)
	}
}
