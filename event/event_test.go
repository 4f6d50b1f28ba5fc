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
	"shuultuur/lib/message"
)

func transaction() *filter.Transaction {
	return &filter.Transaction{
		ID: "0jabc", Start: time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC),
		Client: filter.Client{Addr: netip.MustParseAddr("fe80::1%eth0"), User: "anna", Source: "basic"},
		Host:   "example.com", Port: 443, URL: "https://example.com/", Request: &message.Request{Method: "GET"},
		Response: &message.Response{Fields: message.Fields{{Name: []byte("content-type"), Value: []byte(" text/html ; charset=utf-8")}}},
		Verdict:  filter.Verdict{Reason: filter.Reason{Policy: "pupils"}},
		Record: filter.Record{
			Status: 200, BytesIn: 1, BytesOut: 2, HeadOut: 4, Looked: 3, Length: 5, Note: "note", Duration: 1500*time.Microsecond + 1,
			Server: netip.MustParseAddr("192.0.2.1"), Parent: true, Cache: "hit",
		},
	}
}

func TestFromPlain(t *testing.T) {
	tr := transaction()
	got := event.NewRow(tr)
	want := event.Row{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 124956000, time.UTC), Duration: 1500 * time.Microsecond, ID: "0jabc",
		Client: netip.MustParseAddr("fe80::1"), User: "anna", Policy: "pupils", Method: "GET", URL: "https://example.com/",
		Host: "example.com", Type: "text/html", Note: "note", BytesIn: 1, BytesOut: 2, Status: 200, Port: 443,
		RareValues: event.RareValues{HeadOut: 4, Looked: 3, Length: 5, Server: netip.MustParseAddr("192.0.2.1"), Parent: true, Source: "basic", Cache: "hit"},
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { event.NewRow(tr) }); n != 0 {
		t.Errorf("From made %v allocations, want 0", n)
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
	tr.Monitored = []filter.Reason{{Rule: "new \"list\""}, {Rule: "other"}}
	tr.Signatures = []uint32{2019401, 1<<32 - 1}
	got := event.NewRow(tr)
	if n := testing.AllocsPerRun(100, func() { event.NewRow(tr) }); n > 1 {
		t.Errorf("From made %v allocations, want at most 1", n)
	}
	copy(value, "xxxxxxxxxxxxxxxxx") // the transaction is reused
	tr.Reset()
	if got.Type != "application/x-odd" || got.Category != "phrase" || got.Evidence != "a \"b\"\n\xff" || got.Score != 120 || got.Action != filter.Block || !got.Learned || got.Rule != "words" {
		t.Errorf("after the transaction was reused, the row is %+v", got)
	}
	if got.Monitored != `["new \"list\"","other"]` || got.Signatures != "[2019401,4294967295]" {
		t.Errorf("the row has monitored %s, signatures %s", got.Monitored, got.Signatures)
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
	if got := event.NewRow(tr); got.Score != 34 || got.Category != "" {
		t.Errorf("score %d, category %q, want 34 and none", got.Score, got.Category)
	}
}

func TestTextsAreBounded(t *testing.T) {
	tr := transaction()
	tr.URL = "http://a/" + strings.Repeat("ж", 100_000)
	for range 1000 {
		tr.Findings = append(tr.Findings, filter.Finding{Check: "phrase", Category: "c", Evidence: strings.Repeat("e\n", 5000)})
	}
	for range 10_000 {
		tr.Monitored = append(tr.Monitored, filter.Reason{Rule: strings.Repeat("ж\n", 500)})
		tr.Signatures = append(tr.Signatures, 1<<32-1)
	}
	tr.Verdict.Reason.Finding = tr.Findings[0]
	r := event.NewRow(tr)
	if !json.Valid([]byte(r.Monitored)) || !json.Valid([]byte(r.Signatures)) {
		t.Errorf("cut arrays are no JSON: monitored %.50q, signatures %.50q", r.Monitored, r.Signatures)
	}
	if n := r.TextSize(); n > 37_000 {
		t.Errorf("a row with long texts has %d bytes, want at most 37000", n)
	}
	if !utf8.ValidString(r.URL) || !strings.HasSuffix(r.URL, "ж…") {
		t.Errorf("the cut URL ends in %q, want ж…", r.URL[len(r.URL)-10:])
	}
	var all []filter.Finding
	if err := json.Unmarshal([]byte(r.Findings), &all); err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.Check != "event" || last.Evidence != "998 findings left out" {
		t.Errorf("the last finding is %+v, want the number of those left out", last)
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
			t.Fatalf("AppendJSON wrote %q: %v", b, err)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("AppendJSON wrote a string that reads %q, want %q", got, want)
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
			event.NewRow(tr)
		}
	})
	b.Run("findings", func(b *testing.B) {
		tr := transaction()
		tr.Findings = []filter.Finding{{Check: "phrase", Category: "phrase", Score: 120, Evidence: "gambling: casino (w.list:12) 80; poker (w.list:40) 40"}}
		tr.Verdict.Reason.Finding = tr.Findings[0]
		b.ReportAllocs()
		for b.Loop() {
			event.NewRow(tr)
		}
	})
}

func TestARowSaysWhy(t *testing.T) {
	for _, c := range []struct {
		row  event.Row
		want string
	}{
		{event.Row{}, ""},
		{event.Row{Policy: "pupils"}, "pupils"},
		{event.Row{Rule: "words"}, "words"},
		{event.Row{Policy: "pupils", Rule: "words", Category: "phrase", Score: 120}, "pupils/words (phrase 120)"},
		{event.Row{Policy: "pupils", Note: "the origin is away"}, "pupils [the origin is away]"},
		{event.Row{Category: "ruling", Note: "bet.example: opened"}, "(ruling) [bet.example: opened]"},
	} {
		if got := c.row.Why(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}
