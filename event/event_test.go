package event_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/message"
)

func transaction() *filter.Transaction {
	return &filter.Transaction{
		ID: "0jabc", Start: time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC), Duration: 1500*time.Microsecond + 1,
		Client: filter.Client{Addr: netip.MustParseAddr("fe80::1%eth0"), User: "anna"},
		Host:   "example.com", Port: 443, URL: "https://example.com/", Request: &message.Request{Method: "GET"},
		Response: &message.Response{Fields: message.Fields{{Name: []byte("content-type"), Value: []byte(" text/html ; charset=utf-8")}}},
		Verdict:  filter.Verdict{Reason: filter.Reason{Policy: "pupils"}},
		Status:   200, BytesIn: 1, BytesOut: 2, Looked: 3, Note: "note",
	}
}

func TestFromPlain(t *testing.T) {
	tr := transaction()
	got := event.From(tr)
	want := event.Row{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 124956000, time.UTC), Duration: 1500 * time.Microsecond, ID: "0jabc",
		Client: netip.MustParseAddr("fe80::1"), User: "anna", Policy: "pupils", Method: "GET", URL: "https://example.com/",
		Host: "example.com", Type: "text/html", Note: "note", BytesIn: 1, BytesOut: 2, Looked: 3, Status: 200, Port: 443,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { event.From(tr) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestFromBlocked(t *testing.T) {
	tr := transaction()
	value := []byte("Application/X-Odd")
	tr.Response.Fields[0].Value = value
	tr.Findings = []filter.Finding{
		{Check: "category", Category: "news", Evidence: "own.txt:3"},
		{Check: "phrase", Category: "phrase", Score: 120, Evidence: "a \"b\"\n\xff"},
	}
	tr.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: "pupils", Rule: "words", Finding: tr.Findings[1], Learned: true}}
	got := event.From(tr)
	if n := testing.AllocsPerRun(100, func() { event.From(tr) }); n > 1 {
		t.Errorf("%v allocations, want at most 1", n)
	}
	copy(value, "xxxxxxxxxxxxxxxxx") // the transaction is used again
	tr.Reset()
	if got.Type != "application/x-odd" || got.Category != "phrase" || got.Evidence != "a \"b\"\n\xff" || got.Score != 120 || got.Action != filter.Block || !got.Learned || got.Rule != "words" {
		t.Errorf("got %+v", got)
	}
	var all []filter.Finding
	if err := json.Unmarshal([]byte(got.Findings), &all); err != nil {
		t.Fatal(err)
	}
	want := []filter.Finding{
		{Check: "category", Category: "news", Evidence: "own.txt:3"},
		{Check: "phrase", Category: "phrase", Score: 120, Evidence: "a \"b\"\n\ufffd"},
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestScoreOfAPageThatPassed(t *testing.T) {
	tr := transaction()
	tr.Findings = []filter.Finding{{Check: "phrase", Category: "phrase", Score: 34}, {Check: "phrase", Category: "games", Score: 20}}
	if got := event.From(tr); got.Score != 34 || got.Category != "" {
		t.Errorf("score %d, category %q, want 34 and none", got.Score, got.Category)
	}
}

func TestTextsAreBounded(t *testing.T) {
	tr := transaction()
	tr.URL = "http://a/" + strings.Repeat("ж", 100_000)
	for range 1000 {
		tr.Findings = append(tr.Findings, filter.Finding{Check: "phrase", Category: "c", Evidence: strings.Repeat("e\n", 5000)})
	}
	tr.Verdict.Reason.Finding = tr.Findings[0]
	r := event.From(tr)
	if n := r.TextSize(); n > 30_000 {
		t.Errorf("a row of %d bytes", n)
	}
	if !utf8.ValidString(r.URL) || !strings.HasSuffix(r.URL, "ж…") {
		t.Errorf("URL ends in %q", r.URL[len(r.URL)-10:])
	}
	var all []filter.Finding
	if err := json.Unmarshal([]byte(r.Findings), &all); err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.Check != "event" || last.Evidence != "998 findings left out" {
		t.Errorf("last finding is %+v", last)
	}
}

func TestMatch(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	r := event.Row{Time: at, Host: "www.example.com", URL: "http://www.example.com/Path", User: "anna", Action: filter.Block, Client: netip.MustParseAddr("10.0.0.1")}
	for _, c := range []struct {
		f    event.Filter
		want bool
	}{
		{event.Filter{}, true},
		{event.Filter{Since: at, Until: at.Add(1)}, true},
		{event.Filter{Since: at.Add(1)}, false},
		{event.Filter{Until: at}, false},
		{event.Filter{Host: "example.com"}, true},
		{event.Filter{Host: "www.example.com"}, true},
		{event.Filter{Host: "ample.com"}, false},
		{event.Filter{Host: "a.www.example.com"}, false},
		{event.Filter{Text: "pAtH"}, true},
		{event.Filter{Text: "paths"}, false},
		{event.Filter{Action: "block", User: "anna", Client: netip.MustParseAddr("10.0.0.1")}, true},
		{event.Filter{Action: "pass"}, false},
	} {
		if got := c.f.Match(&r); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.f, got, c.want)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\r\t\x00\x7f", "\xff\xc3", "ä日🙂\u0085\u2028\u2029\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := event.AppendJSON(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		for _, r := range string(b) {
			if r < ' ' || 0x7f <= r && r < 0xa0 || r == 0x2028 || r == 0x2029 {
				t.Fatalf("%q has control character %#x", b, r)
			}
		}
	})
}

func BenchmarkFrom(b *testing.B) {
	tr := transaction()
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			event.From(tr)
		}
	})
	b.Run("findings", func(b *testing.B) {
		tr := transaction()
		tr.Findings = []filter.Finding{{Check: "phrase", Category: "phrase", Score: 120, Evidence: "gambling: casino (w.list:12) 80; poker (w.list:40) 40"}}
		tr.Verdict.Reason.Finding = tr.Findings[0]
		b.ReportAllocs()
		for b.Loop() {
			event.From(tr)
		}
	})
}
