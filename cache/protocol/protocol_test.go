package protocol

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/message"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const noonText = "Sun, 01 Mar 2026 12:00:00 GMT"

// fields makes fields of lines "Name: value".
func fields(lines ...string) (f message.Fields) {
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		f.Add(name, value)
	}
	return f
}

func response(status int, lines ...string) *message.Response {
	return &message.Response{Status: status, Fields: fields(lines...)}
}

func lines(f message.Fields) string {
	var b strings.Builder
	for _, x := range f {
		b.WriteString(string(x.Name) + ": " + string(x.Value) + "\n")
	}
	return b.String()
}

func TestDatesHaveThreeForms(t *testing.T) {
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "sun, 06 nov 1994 08:49:37 gmt"} {
		if got, ok := Date([]byte(s)); !ok || !got.Equal(want) {
			t.Errorf("%q: got %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "0", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nix 1994 08:49:37 GMT", "Sun Nov  6 08-49-37 1994", "Sunday, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 1994 08:4x:37 GMT",
	} {
		if got, ok := Date([]byte(s)); ok {
			t.Errorf("%q: got %v, want no date", s, got)
		}
	}
}

func TestLifetimesComeFromTheFirstThatIsGiven(t *testing.T) {
	for _, c := range []struct {
		status    int
		fields    []string
		lifetime  time.Duration
		heuristic bool
	}{
		{200, nil, 0, false},
		{200, []string{"Cache-Control: max-age=10, s-maxage=20"}, 20 * time.Second, false},
		{200, []string{"Cache-Control: max-age=10", "Expires: Sun, 01 Mar 2026 13:00:00 GMT"}, 10 * time.Second, false},
		{200, []string{"Expires: Sun, 01 Mar 2026 13:00:00 GMT"}, time.Hour, false},
		{200, []string{"Expires: 0"}, 0, false},
		{200, []string{"Expires: Sun, 01 Mar 2026 13:00:00 GMT", "Expires: Sun, 01 Mar 2026 14:00:00 GMT"}, 0, false},
		{200, []string{"Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT"}, time.Hour, true},
		{200, []string{"Last-Modified: Sun, 01 Mar 2020 02:00:00 GMT"}, 24 * time.Hour, true},
		{200, []string{"Last-Modified: Sun, 01 Mar 2027 02:00:00 GMT"}, 0, true},
		{302, []string{"Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT"}, 0, false},
		{302, []string{"Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT", "Cache-Control: public"}, time.Hour, true},
		{200, []string{"Cache-Control: max-age=x"}, 0, false},
		{200, []string{"Cache-Control: max-age=5, max-age=6"}, 0, false},
		{200, []string{"Cache-Control: max-age=99999999999"}, longest, false},
	} {
		f := Describe(response(c.status, append(c.fields, "Date: "+noonText)...), noon, noon)
		if f.Lifetime != c.lifetime || f.Heuristic != c.heuristic {
			t.Errorf("%d %q: got %v, heuristic %v; want %v, %v", c.status, c.fields, f.Lifetime, f.Heuristic, c.lifetime, c.heuristic)
		}
	}
}

func TestTheAgeCountsFromTheOrigin(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   time.Duration // three seconds after the request was sent
	}{
		{[]string{"Date: " + noonText}, 3 * time.Second},
		{[]string{"Date: Sun, 01 Mar 2026 11:59:00 GMT"}, 63 * time.Second},
		{[]string{"Date: " + noonText, "Age: 100"}, 103 * time.Second},
		{[]string{"Date: " + noonText, "Age: 100, 200"}, 103 * time.Second},
		{[]string{"Date: " + noonText, "Age: -1"}, 3 * time.Second},
		{[]string{"Date: Sun, 01 Mar 2026 13:00:00 GMT"}, 3 * time.Second}, // its clock is wrong
		{nil, 3 * time.Second},
	} {
		f := Describe(response(200, c.fields...), noon, noon.Add(3*time.Second))
		if f.Age != c.want {
			t.Errorf("%q: age %v, want %v", c.fields, f.Age, c.want)
		}
		if got := f.AgeAt(noon.Add(13 * time.Second)); got != c.want+10*time.Second {
			t.Errorf("%q: age %v ten seconds later", c.fields, got)
		}
		f.Lifetime = f.Age + time.Minute
		if got := f.Expires(); !got.Equal(noon.Add(63*time.Second)) || f.FreshFor(got) != 0 {
			t.Errorf("%q: expires at %v, fresh for %v then", c.fields, got, f.FreshFor(got))
		}
	}
}

func TestAStoredResponseIsUsedAsBothSidesPermit(t *testing.T) {
	for _, c := range []struct {
		response, request string // Cache-Control
		age               time.Duration
		want              Use
	}{
		{"max-age=60", "", 59 * time.Second, Fresh},
		{"max-age=60", "", 60 * time.Second, Revalidate},
		{"max-age=60", "", -2 * time.Minute, Fresh}, // two clocks differ
		{"max-age=60", "", -time.Hour, Revalidate},  // a wrong clock has stored it
		{"max-age=31536000", "", -730 * 24 * time.Hour, Revalidate},
		{"max-age=60", "no-cache", 0, Revalidate},
		{"max-age=60", "no-store", 0, Revalidate},
		{"no-cache, max-age=60", "", 0, Revalidate},
		{"max-age=60", "max-age=10", 11 * time.Second, Revalidate},
		{"max-age=60", "max-age=10, max-stale=5", 14 * time.Second, Fresh},
		{"max-age=60, immutable", "max-age=0", 30 * time.Second, Fresh},
		{"max-age=60", "min-fresh=30", 31 * time.Second, Revalidate},
		{"max-age=60", "max-stale", time.Hour, Fresh},
		{"max-age=60", "max-stale=5", 66 * time.Second, Revalidate},
		{"max-age=60, must-revalidate", "max-stale", 61 * time.Second, Revalidate},
		{"s-maxage=60", "max-stale", 61 * time.Second, Revalidate},
		{"max-age=60, stale-while-revalidate=30", "", 80 * time.Second, Refresh},
		{"max-age=60, stale-while-revalidate=30", "", 91 * time.Second, Revalidate},
	} {
		f := Describe(response(200, "Date: "+noonText, "Cache-Control: "+c.response), noon, noon)
		q := Control(fields("Cache-Control: " + c.request))
		if got := f.Judge(&q, noon.Add(c.age)); got != c.want {
			t.Errorf("response %q, request %q, age %v: got %v, want %v", c.response, c.request, c.age, got, c.want)
		}
	}
}

func TestStaleResponsesStandInWhereTheyMay(t *testing.T) {
	for _, c := range []struct {
		response, request string
		offline           time.Duration
		want              bool
	}{
		{"max-age=60", "", 0, false},
		{"max-age=60", "", time.Minute, true},
		{"max-age=60", "", 5 * time.Second, false},
		{"max-age=60, stale-if-error=30", "", 0, true},
		{"max-age=60", "stale-if-error=30", 0, true},
		{"max-age=60, must-revalidate", "", time.Minute, false},
		{"max-age=60", "no-cache", time.Minute, false},
		{"max-age=60", "max-age=100", time.Minute, false},
	} {
		f := Describe(response(200, "Date: "+noonText, "Cache-Control: "+c.response), noon, noon)
		q := Control(fields("Cache-Control: " + c.request))
		if got := f.MayServeStale(&q, noon.Add(80*time.Second), c.offline); got != c.want {
			t.Errorf("response %q, request %q, offline %v: got %v", c.response, c.request, c.offline, got)
		}
	}
	for status, want := range map[int]bool{500: true, 501: false, 502: true, 503: true, 504: true, 404: false, 200: false} {
		if Failed(status) != want {
			t.Errorf("Failed(%d) is %v", status, !want)
		}
	}
}

func TestOnlyWhatMayBeSharedIsStored(t *testing.T) {
	get := message.Request{Method: "GET"}
	signed := message.Request{Method: "GET", Fields: fields("Authorization: Basic x")}
	cookie := message.Request{Method: "GET", Fields: fields("Cookie: a=b")}
	post := message.Request{Method: "POST"}
	for name, c := range map[string]struct {
		q        *message.Request
		status   int
		fields   []string
		asked    string
		personal bool
		want     string
	}{
		"fresh":                         {&get, 200, []string{"Cache-Control: max-age=5"}, "", false, ""},
		"only validated":                {&get, 200, []string{`ETag: "x"`}, "", false, ""},
		"neither":                       {&get, 200, nil, "", false, "stale"},
		"304":                           {&get, 304, []string{"Cache-Control: max-age=5"}, "", false, "status"},
		"a part by POST":                {&post, 206, []string{"Cache-Control: max-age=5"}, "", false, "status"},
		"no-store of the request":       {&get, 200, []string{"Cache-Control: max-age=5"}, "no-store", false, "request-no-store"},
		"no-store":                      {&get, 200, []string{"Cache-Control: max-age=5, no-store"}, "", false, "no-store"},
		"must-understand":               {&get, 200, []string{"Cache-Control: max-age=5, no-store, must-understand"}, "", false, ""},
		"not understood":                {&get, 299, []string{"Cache-Control: max-age=5, must-understand"}, "", false, "must-understand"},
		"private":                       {&get, 200, []string{"Cache-Control: max-age=5, private"}, "", false, "private"},
		"signed in":                     {&signed, 200, []string{"Cache-Control: max-age=5"}, "", false, "authorization"},
		"signed in, public":             {&signed, 200, []string{"Cache-Control: max-age=5, public"}, "", false, ""},
		"signed in, s-maxage":           {&signed, 200, []string{"Cache-Control: s-maxage=5"}, "", false, ""},
		"signed in, s-maxage, personal": {&signed, 200, []string{"Cache-Control: s-maxage=5"}, "", true, "authorization"},
		"varies by everything":          {&get, 200, []string{"Cache-Control: max-age=5", "Vary: a, *"}, "", false, "vary"},
		"sets a cookie":                 {&get, 200, []string{"Cache-Control: max-age=5", "Set-Cookie: a=b"}, "", false, ""},
		"sets a cookie, by guess":       {&get, 200, []string{"Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT", "Set-Cookie: a=b"}, "", false, "set-cookie"},
		"sets a cookie, personal":       {&get, 200, []string{"Cache-Control: max-age=5", "Set-Cookie: a=b"}, "", true, "set-cookie"},
		"has a cookie, personal":        {&cookie, 200, []string{"Cache-Control: max-age=5"}, "", true, "cookie"},
		"POST":                          {&post, 200, []string{"Cache-Control: max-age=5"}, "", false, ""},
		"POST, by guess":                {&post, 200, []string{"Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT"}, "", false, "method"},
		"302":                           {&get, 302, []string{`ETag: "x"`}, "", false, "not-cacheable"},
	} {
		s := response(c.status, append(c.fields, "Date: "+noonText)...)
		f, asked := Describe(s, noon, noon), Control(fields("Cache-Control: "+c.asked))
		if got := Storable(c.q, s, &f, &asked, c.personal); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAnAnswerNamesWhatIsNoLongerValid(t *testing.T) {
	if got := Invalidates(response(201, "Content-Location: /b", "Location: /a")); len(got) != 2 || string(got[0]) != "/a" || string(got[1]) != "/b" {
		t.Errorf("Invalidates: got %q", got)
	}
}

func TestAClientGetsThePartItAsksFor(t *testing.T) {
	const size = 100
	for name, c := range map[string]struct {
		fields         []string
		offset, length int64
		want           Part
		ok             bool
	}{
		"all":                         {nil, 0, size, Part{Status: 200}, true},
		"all of a part":               {nil, 0, 50, Part{Status: 200}, false},
		"a part":                      {[]string{"Range: bytes=10-19"}, 0, size, Part{206, 10, 19}, true},
		"an open end":                 {[]string{"Range: bytes=90-"}, 0, size, Part{206, 90, 99}, true},
		"the end":                     {[]string{"Range: bytes=-5"}, 0, size, Part{206, 95, 99}, true},
		"more than there is":          {[]string{"Range: bytes=-500"}, 0, size, Part{206, 0, 99}, true},
		"beyond any number":           {[]string{"Range: bytes=0-99999999999999999999999"}, 0, size, Part{206, 0, 99}, true},
		"after the end":               {[]string{"Range: bytes=100-"}, 0, size, Part{Status: 416}, true},
		"nothing":                     {[]string{"Range: bytes=-0"}, 0, size, Part{Status: 416}, true},
		"several parts":               {[]string{"Range: bytes=0-1,5-6"}, 0, size, Part{Status: 200}, true},
		"two fields":                  {[]string{"Range: bytes=0-1", "Range: bytes=5-6"}, 0, size, Part{Status: 200}, true},
		"another unit":                {[]string{"Range: lines=0-1"}, 0, size, Part{Status: 200}, true},
		"backwards":                   {[]string{"Range: bytes=5-1"}, 0, size, Part{Status: 200}, true},
		"in the stored part":          {[]string{"Range: bytes=30-39"}, 20, 30, Part{206, 30, 39}, true},
		"outside of the stored part":  {[]string{"Range: bytes=10-29"}, 20, 30, Part{}, false},
		"of the same":                 {[]string{"Range: bytes=0-1", `If-Range: "x"`}, 0, size, Part{206, 0, 1}, true},
		"of another":                  {[]string{"Range: bytes=0-1", `If-Range: "y"`}, 0, size, Part{Status: 200}, true},
		"of the same time":            {[]string{"Range: bytes=0-1", "If-Range: Sun, 01 Mar 2026 02:00:00 GMT"}, 0, size, Part{206, 0, 1}, true},
		"known by tag":                {[]string{`If-None-Match: "a,b", W/"x"`}, 0, size, Part{Status: 304}, true},
		"known by any tag":            {[]string{"If-None-Match: *"}, 0, size, Part{Status: 304}, true},
		"another tag":                 {[]string{`If-None-Match: "y"`, "If-Modified-Since: " + noonText}, 0, size, Part{Status: 200}, true},
		"known by time":               {[]string{"If-Modified-Since: Sun, 01 Mar 2026 02:00:00 GMT"}, 0, size, Part{Status: 304}, true},
		"modified since":              {[]string{"If-Modified-Since: Sun, 01 Mar 2026 01:00:00 GMT"}, 0, size, Part{Status: 200}, true},
		"a time that is not one":      {[]string{"If-Modified-Since: now"}, 0, size, Part{Status: 200}, true},
		"a tag that ends in the text": {[]string{`If-None-Match: "y`}, 0, size, Part{Status: 200}, true},
	} {
		s := response(200, "Date: "+noonText, `ETag: "x"`, "Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT")
		f := Describe(s, noon, noon)
		q := message.Request{Method: "GET", Fields: fields(c.fields...)}
		if got, ok := Answer(&q, s, &f, c.offset, c.length, size); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestContentRanges(t *testing.T) {
	for s, want := range map[string]struct {
		first, last, size int64
		ok                bool
	}{
		"bytes 0-9/100": {0, 9, 100, true}, "bytes 0-9/*": {0, 9, -1, true}, "BYTES 5-5/6": {5, 5, 6, true},
		"": {}, "bytes */100": {}, "bytes 0-9": {}, "bytes 0-100/100": {}, "lines 0-9/100": {}, "bytes 0-9/x": {},
	} {
		first, last, size, ok := ContentRange([]byte(s))
		if ok != want.ok || ok && (first != want.first || last != want.last || size != want.size) {
			t.Errorf("%q: got %d-%d/%d, %v", s, first, last, size, ok)
		}
	}
}

func TestAStoredResponseIsValidatedAndFreshened(t *testing.T) {
	stored := response(200, `ETag: "x"`, "Last-Modified: "+noonText, "Content-Length: 5", "X-A: 1", "X-B: 2")
	got := lines(Conditions(nil, fields("Accept: */*", `If-Match: "z"`, "Range: bytes=0-1", "If-Modified-Since: x"), stored))
	if want := "Accept: */*\nIf-None-Match: \"x\"\nIf-Modified-Since: " + noonText + "\n"; got != want {
		t.Errorf("Conditions: got %q, want %q", got, want)
	}
	if got := lines(Conditions(nil, nil, response(200, "ETag: bare"))); got != "If-None-Match: bare\n" {
		t.Errorf("Conditions with a tag without quotes: got %q", got)
	}
	for _, c := range []struct {
		answer *message.Response
		want   bool
	}{
		{response(304), true}, {response(304, `ETag: "x"`), true}, {response(304, `ETag: W/"x"`), true}, {response(304, `ETag: "y"`), false},
		{response(304, "Last-Modified: "+noonText), true}, {response(304, "Last-Modified: Sun, 01 Mar 2026 02:00:00 GMT"), false},
	} {
		if Validated(stored, c.answer) != c.want {
			t.Errorf("Validated by %q is %v", lines(c.answer.Fields), !c.want)
		}
	}
	fresh := lines(Freshen(stored.Fields, response(304, "X-B: 3", "X-C: 4", "Content-Length: 0", "Connection: x-d", "X-D: 5", "Age: 6")))
	if want := "ETag: \"x\"\nLast-Modified: " + noonText + "\nContent-Length: 5\nX-A: 1\nX-B: 3\nX-C: 4\n"; fresh != want {
		t.Errorf("Freshen: got %q, want %q", fresh, want)
	}
	weak := lines(Freshen(fields(`ETag: W/"x"`), response(304, `ETag: "x"`)))
	if weak != "ETag: W/\"x\"\n" {
		t.Errorf("Freshen of a weak tag: got %q", weak)
	}
	for _, c := range []struct {
		head *message.Response
		want bool
	}{
		{response(200), true}, {response(200, "Content-Length: 5"), true}, {response(200, "Content-Length: 6"), false}, {response(404), false}, {response(200, `ETag: "y"`), false},
	} {
		if SameBody(stored, 5, c.head) != c.want {
			t.Errorf("SameBody with %d %q is %v", c.head.Status, lines(c.head.Fields), !c.want)
		}
	}
}

func TestVariantsAreEqualForRequestsThatMeanTheSame(t *testing.T) {
	names := Vary(fields("Vary: Accept-Language, X-A", "Vary: x-a,, accept-encoding"))
	if !slices.Equal(names, []string{"accept-encoding", "accept-language", "x-a"}) {
		t.Fatalf("Vary: got %q", names)
	}
	of := func(lines ...string) string { return string(Variant(nil, names, fields(lines...), "")) }
	for _, c := range []struct {
		a, b []string
		same bool
	}{
		{[]string{"Accept-Language: en, de;q=0.5"}, []string{"Accept-Language: DE;q=0.5,en"}, true},
		{[]string{"Accept-Language: en, de;q=0.5"}, []string{"Accept-Language: en;q=0.5, de"}, false},
		{[]string{"Accept-Encoding: x-gzip"}, []string{"Accept-Encoding: gzip;q=1.0"}, true},
		{[]string{"Accept-Encoding: "}, nil, false},
		{[]string{"X-A: 1, 2"}, []string{"X-A: 1", "X-A: 2"}, true},
		{[]string{"X-A: 1, 2"}, []string{"X-A: 2, 1"}, false},
		{[]string{"X-A: "}, nil, false},
		{[]string{"X-B: 1"}, nil, true},
	} {
		if got := of(c.a...) == of(c.b...); got != c.same {
			t.Errorf("%q and %q: same variant is %v", c.a, c.b, got)
		}
	}
	q := fields("Accept-Language: de, en, fr;q=0.9, *")
	if got := Languages(q); !slices.Equal(got, []string{"de", "en"}) {
		t.Errorf("Languages: got %q", got)
	}
	if got := Languages(fields("Accept-Language: a,b,c,d,e")); len(got) != 4 {
		t.Errorf("Languages: got %q, want four", got)
	}
	if a, b := Language(q, fields("Content-Language: EN")), Language(q, fields("Content-Language: fr")); a != "en" || b != "" {
		t.Errorf("Language: got %q and %q", a, b)
	}
	if got := string(Variant(nil, []string{"accept-language"}, q, "en")); got != "accept-language:=en\n" {
		t.Errorf("Variant of a language: got %q", got)
	}
}

func TestLifetimesAreBounded(t *testing.T) {
	f := Facts{Lifetime: time.Minute, Control: Directives{NoCache: true}}
	f.Bound(0, 0)
	if f.Lifetime != time.Minute || !f.Control.NoCache {
		t.Errorf("without bounds: got %+v", f)
	}
	f.Bound(time.Hour, 0)
	if f.Lifetime != time.Hour || !f.Heuristic || f.Control.NoCache {
		t.Errorf("at least an hour: got %+v", f)
	}
	if f.Bound(0, time.Second); f.Lifetime != time.Second {
		t.Errorf("at most a second: got %v", f.Lifetime)
	}
}
