package event_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

func TestFiltersWantWhatPeopleWrite(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	r := event.Row{
		Time: at, ID: "0jabcdefghj", Host: "www.example.com", URL: "http://www.example.com/Path?a,b", User: "anna b", Action: filter.Block,
		Client: netip.MustParseAddr("10.0.0.1"), Status: 403, Rule: "bets", Category: "gambling",
		RareValues: event.RareValues{Monitored: `["new list","say \"no\""]`, Signatures: "[2019401,7]"},
	}
	for text, want := range map[string]bool{
		"": true, "  ": true, `""`: true,
		"host:example.com": true, "host:www.example.com": true, "host:WWW.Example.COM.": true, "host:ample.com": false, "host:a.www.example.com": false,
		"pAtH": true, "paths": false, "http://www.example.com/path": true, "path?a,b": true, "-path": false, "-paths": true, "text:path,paths": true,
		"action:block": true, "action:pass": false, "action:pass,block": true, "-action:pass": true,
		`user:"anna b"`: true, "user:anna": false, "user:": false, "-user:": true, `User:"anna b" action:block client:10.0.0.1`: true,
		"client:10.0.0.0/24": true, "client:10.0.0.2,10.0.0.1": true, "client:10.0.1.0/24": false, "-client:10.0.0.0/8": false, "client:": false,
		"status:403": true, "status:200": false, "status:": false, "category:gambling rule:bets": true, "category:gambling rule:bet": false,
		"0jabcdefghj": true, "id:0jabcdefghj": true, "0jabcdefgh": false,
		`monitored:"new list"`: true, "monitored:new": false, `monitored:list`: false, "-monitored:": true, "signature:7": true, "signature:2019": false, "signature:": false,
		"learned:yes": false, "-learned:yes": true, "proto:http": true, "proto:dns": false, "cache:": true, "cache:hit": false,
		"since:2026-01-01": true, "until:2026-01-01": false, "2001:db8::1": false,
	} {
		f, err := event.ParseFilter(text, at)
		if err != nil {
			t.Errorf("ParseFilter(%q): %v", text, err)
		} else if got := f.Match(&r); got != want {
			t.Errorf("ParseFilter(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestFiltersSayWhatIsWrongWithThem(t *testing.T) {
	for text, want := range map[string]string{
		"hots:example.com":                     `"hots" is not a field`,
		"client:anna":                          `"anna" is not the address of a client`,
		"action:shout":                         `"shout" is not an action`,
		"proto:ftp":                            `"ftp" is not a protocol`,
		"status:ok":                            `"ok" is not a status`,
		"signature:x":                          `"x" is not the identifier`,
		"learned:no":                           "write learned:yes or -learned:yes",
		"since:yesterday":                      `"yesterday" is not a time`,
		"since:1h,2h":                          "since: takes one time",
		`user:"anna`:                           "quotation marks are not closed",
		strings.Repeat("a ", 100):              "more than 64 words",
		"host:" + strings.Repeat("a.mn,", 100): "more than 64 values",
	} {
		if _, err := event.ParseFilter(text, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFilter(%.30q): %v, want an error with %q", text, err, want)
		}
	}
}

func TestSpansOfTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f, err := event.ParseFilter("since:2h until:2026-01-02T11:30:00Z", now)
	if err != nil || !f.Since.Equal(now.Add(-2*time.Hour)) || !f.Until.Equal(now.Add(-30*time.Minute)) {
		t.Fatalf("since:2h until:30m became %+v, %v", f, err)
	}
	for at, want := range map[time.Time]bool{f.Since: true, f.Since.Add(-1): false, f.Until: false, f.Until.Add(-1): true} {
		if got := f.Match(&event.Row{Time: at}); got != want {
			t.Errorf("the filter matches a row at %v: %v, want %v", at, got, want)
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"", "a", "-", "host:example.com,mn action:block", `-user:"a b",c "x`, "client:10.0.0.0/8 since:2h", "2001:db8::1", "a:b:c", "http://x:1/"} {
		f.Add(s)
	}
	r := event.Row{Host: "example.com", URL: "http://example.com/", RareValues: event.RareValues{Monitored: `["a"]`, Signatures: "[1]"}}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := event.ParseFilter(s, time.Unix(0, 0))
		if err == nil {
			q.Match(&r)
		}
	})
}

// Sunday, 6 September 2026, has no midnight in Santiago and begins at one.
func TestASearchBeginsWithTheFirstMomentOfADate(t *testing.T) {
	santiago, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-09-05": "2026-09-05T04:00:00Z", "2026-09-06": "2026-09-06T04:00:00Z", "2026-09-07": "2026-09-07T03:00:00Z",
		"2026-09-06T00:30": "2026-09-06T04:00:00Z", "2026-09-06T12:00:07": "2026-09-06T15:00:07Z",
		"2026-09-06T12:00:00Z": "2026-09-06T12:00:00Z",
	} {
		got, err := event.Moment(text, time.Now().In(santiago))
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v; want %s", text, got.UTC(), err, want)
		}
	}
}
