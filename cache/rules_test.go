package cache

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// A step is one request of a trial, the origin's response, and the expected
// response to the client.
type step struct {
	wait   time.Duration // before the request
	method string        // default GET
	path   string        // "/" where it is empty
	ask    []string      // fields of the request: names and values

	origin []string // fields of the origin's response; nil if the origin must not be asked
	says   int      // status of the origin's response; default 200
	sends  string   // its body
	sees   []string // fields that the origin must get; an empty value: must not get

	status int      // status that the client must get; default 200
	body   string   // "": not looked at
	has    []string // fields that the client must get; an empty value: must not get
}

// TestRules has the rules of RFC 9111 and of RFCs that it refers to, with a trial for each.
func TestRules(t *testing.T) {
	for name, trial := range rules() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTrial(t, trial) })
		})
	}
}

func runTrial(t *testing.T, trial []step) {
	var now *step
	asked := 0
	c, stop := running(t)
	defer stop()
	front := c.InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
		asked++
		for i := 0; i < len(now.sees); i += 2 {
			if got := string(q.Get(now.sees[i])); got != now.sees[i+1] {
				t.Errorf("the origin got %s: %q, want %q", now.sees[i], got, now.sees[i+1])
			}
		}
		s := respond(now.says, now.sends, now.origin...)
		if now.says == 304 || q.Method == "HEAD" {
			s.Length, s.Body = message.None, new(message.MemoryBody)
		}
		return s, nil
	}))
	for i := range trial {
		now = &trial[i]
		now.says, now.status = or(now.says, 200), or(now.status, 200)
		time.Sleep(now.wait)
		before := asked
		method := now.method
		if method == "" {
			method = "GET"
		}
		s, err := front.RoundTrip(t.Context(), request(method, "http://example.org/"+strings.TrimPrefix(now.path, "/"), now.ask...))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(s.Body)
		s.Body.Close()
		synctest.Wait()
		if want := min(1, len(now.origin)); asked-before != want && (want == 0 || asked == before) {
			t.Errorf("request %d: the origin was asked %d times, want %d", i+1, asked-before, want)
		}
		if err != nil || s.Status != now.status || now.body != "" && string(body) != now.body {
			t.Errorf("request %d: got status %d, body %q, error %v; want status %d, body %q", i+1, s.Status, body, err, now.status, now.body)
		}
		for j := 0; j < len(now.has); j += 2 {
			if got := string(s.Get(now.has[j])); got != now.has[j+1] {
				t.Errorf("request %d: got %s: %q, want %q", i+1, now.has[j], got, now.has[j+1])
			}
		}
	}
}

func or(n, usual int) int {
	if n == 0 {
		return usual
	}
	return n
}

// at returns an HTTP date this long after the beginning of a trial.
func at(d time.Duration) string {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
}

const minute, hour = time.Minute, time.Hour

func rules() map[string][]step {
	all := map[string][]step{}
	for _, some := range []map[string][]step{rangeRules(), varyRules(), updateRules(), ageRules(), requestRules(), oddRules(), rareRules()} {
		for name, trial := range some {
			all[name] = trial
		}
	}
	return all
}

// storing returns a first request that stores text with a strong tag.
func storing(text string, fields ...string) step {
	return step{origin: append([]string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Date", at(0), "Last-Modified", at(-hour)}, fields...), sends: text, body: text}
}

// RFC 9110, 13.1.5 and 14; RFC 9111, 3.3, 3.4.
func rangeRules() map[string][]step {
	const text = "0123456789"
	part := func(ask string, status int, body, contentRange string, more ...string) []step {
		return []step{storing(text), {ask: append([]string{"Range", ask}, more...), status: status, body: body, has: []string{"Content-Range", contentRange}}}
	}
	return map[string][]step{
		"a range":                                         part("bytes=2-4", 206, "234", "bytes 2-4/10"),
		"a range to the end":                              part("bytes=7-", 206, "789", "bytes 7-9/10"),
		"a suffix":                                        part("bytes=-3", 206, "789", "bytes 7-9/10"),
		"a suffix longer than the body":                   part("bytes=-30", 206, text, "bytes 0-9/10"),
		"an end behind the body":                          part("bytes=8-1000", 206, "89", "bytes 8-9/10"),
		"an end that no number holds":                     part("bytes=8-99999999999999999999999", 206, "89", "bytes 8-9/10"),
		"a beginning that no number holds":                part("bytes=99999999999999999999999-", 416, "", "bytes */10"),
		"a suffix that no number holds":                   part("bytes=-99999999999999999999999", 206, text, "bytes 0-9/10"),
		"a range behind the body":                         part("bytes=10-", 416, "", "bytes */10"),
		"a suffix of nothing":                             part("bytes=-0", 416, "", "bytes */10"),
		"a range that ends before it begins":              part("bytes=4-2", 200, text, ""),
		"another unit":                                    part("lines=1-2", 200, text, ""),
		"several ranges are served as the whole":          part("bytes=0-1,4-5", 200, text, ""),
		"several fields with ranges":                      part("bytes=0-1", 200, text, "", "Range", "bytes=4-5"),
		"If-Range with the tag":                           part("bytes=2-4", 206, "234", "bytes 2-4/10", "If-Range", `"a"`),
		"If-Range with another tag":                       part("bytes=2-4", 200, text, "", "If-Range", `"b"`),
		"If-Range with the tag said to be weak":           part("bytes=2-4", 200, text, "", "If-Range", `W/"a"`),
		"If-Range with the date":                          part("bytes=2-4", 206, "234", "bytes 2-4/10", "If-Range", at(-hour)),
		"If-Range with a later date":                      part("bytes=2-4", 200, text, "", "If-Range", at(0)),
		"If-Range with an earlier date":                   part("bytes=2-4", 200, text, "", "If-Range", at(-2*hour)),
		"If-Range that is neither":                        part("bytes=2-4", 200, text, "", "If-Range", "a"),
		"a condition goes before a range":                 part("bytes=2-4", 304, "", "", "If-None-Match", `"a"`),
		"a condition that does not hold leaves the range": part("bytes=2-4", 206, "234", "bytes 2-4/10", "If-None-Match", `"b"`),
		"If-Range with a weak tag that is stored": {
			{origin: []string{"Cache-Control", "max-age=60", "ETag", `W/"a"`}, sends: text},
			{ask: []string{"Range", "bytes=2-4", "If-Range", `W/"a"`}, body: text}},
		"HEAD has no range": {storing(text), {method: "HEAD", ask: []string{"Range", "bytes=2-4"}, has: []string{"Content-Length", "10", "Content-Range", ""}}},
		"several ranges from the origin are not stored": {
			{ask: []string{"Range", "bytes=0-1,4-5"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Type", "multipart/byteranges; boundary=x"}, says: 206, status: 206, sends: "--x"},
			{origin: []string{"Cache-Control", "max-age=60"}, sends: text, body: text}},
		"parts of a weak tag are not combined": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `W/"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"Range", "bytes=5-9"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `W/"a"`, "Content-Range", "bytes 5-9/10"}, says: 206, status: 206, sends: "abcde"},
			{origin: []string{"Cache-Control", "max-age=60"}, sees: []string{"Range", ""}, sends: text, body: text}},
		"parts of one tag are combined": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"Range", "bytes=5-9"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 5-9/10"}, says: 206, status: 206, sends: "56789"},
			{body: text, has: []string{"Content-Range", "", "Content-Length", "10"}},
			{ask: []string{"Range", "bytes=3-6"}, status: 206, body: "3456"}},
		"parts with a gap are not combined": {
			{ask: []string{"Range", "bytes=0-1"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-1/10"}, says: 206, status: 206, sends: "01"},
			{ask: []string{"Range", "bytes=5-9"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 5-9/10"}, says: 206, status: 206, sends: "56789"},
			{origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, sends: text, body: text}},
		"the rest of a part is asked for": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 5-9/10"}, sees: []string{"Range", "bytes=5-", "If-Range", `"a"`}, says: 206, sends: "56789", body: text}},
		"the rest of a part that has changed": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{origin: []string{"Cache-Control", "max-age=60", "ETag", `"b"`}, sees: []string{"Range", "bytes=5-", "If-Range", `"a"`}, sends: "another", body: "another"},
			{body: "another"}},
		"a part is not the whole for conditions of the client": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"If-None-Match", `"a"`}, status: 304}},
		"a part that is all there is answers like the whole": {
			{ask: []string{"Range", "bytes=0-"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-9/10"}, says: 206, status: 206, sends: text},
			{body: text, has: []string{"Content-Range", "", "Content-Length", "10"}},
			{method: "HEAD", has: []string{"Content-Range", "", "Content-Length", "10"}},
			{ask: []string{"Range", "bytes=0-"}, status: 206, body: text, has: []string{"Content-Range", "bytes 0-9/10"}},
			{wait: 2 * minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 304, sees: []string{"Range", "", "If-None-Match", `"a"`}, body: text}},
		"HEAD of a part": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, sends: text, has: []string{"Content-Range", ""}}},
		"a part of an unknown whole": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/*"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"X", "y"}, says: 206, status: 206, sends: "01234"}},
		"a stale part is validated with its range": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{wait: minute, ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=5", "ETag", `"b"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "abcde", body: "abcde"},
			{ask: []string{"Range", "bytes=0-4"}, status: 206, body: "abcde"}},
		"parts that overlap": {
			{ask: []string{"Range", "bytes=0-5"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-5/10"}, says: 206, status: 206, sends: "012345"},
			{ask: []string{"Range", "bytes=4-9"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 4-9/10"}, says: 206, status: 206, sends: "456789"},
			{body: text}},
		"parts of another length are not combined": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"Range", "bytes=5-9"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 5-9/11"}, says: 206, status: 206, sends: "56789"},
			{origin: []string{"X", "y"}, sends: text, body: text}},
		"a part without a lifetime is as fresh as the whole is guessed to be": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Last-Modified", at(-hour), "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{wait: minute, ask: []string{"Range", "bytes=1-2"}, status: 206, body: "12"}},
		"416 of the origin leaves what is stored": {
			{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"},
			{ask: []string{"Range", "bytes=6-7"}, origin: []string{"Content-Range", "bytes */10"}, says: 416, status: 416},
			{ask: []string{"Range", "bytes=1-2"}, status: 206, body: "12"}},
	}
}

// RFC 9111, 4.1.
func varyRules() map[string][]step {
	vary := func(by, first, second string, again bool) []step {
		name := by
		var ask []string
		if first != "-" {
			ask = []string{name, first}
		}
		trial := []step{{ask: ask, origin: []string{"Cache-Control", "max-age=60", "Vary", by}, sends: "first"}}
		ask = nil
		if second != "-" {
			ask = []string{name, second}
		}
		s := step{ask: ask, origin: []string{"Cache-Control", "max-age=60", "Vary", by}, sends: "second", body: "second"}
		if again {
			s.origin, s.body = nil, "first"
		}
		return append(trial, s)
	}
	return map[string][]step{
		"another value":                         vary("X-Kind", "a", "b", false),
		"the same value":                        vary("X-Kind", "a", "a", true),
		"case counts in a field nobody knows":   vary("X-Kind", "a", "A", false),
		"space around commas does not":          vary("X-Kind", "a, b", "a ,b", true),
		"a missing field and an empty one":      vary("X-Kind", "-", "", false),
		"no codings and any":                    vary("Accept-Encoding", "", "-", false),
		"no languages and any":                  vary("Accept-Language", "", "-", false),
		"two requests without the field":        vary("Accept-Encoding", "-", "-", true),
		"codings in another order":              vary("Accept-Encoding", "gzip, br", "br, gzip", true),
		"codings in another case":               vary("Accept-Encoding", "GZIP", "gzip", true),
		"a weight of one is none":               vary("Accept-Encoding", "gzip;q=1.0", "gzip", true),
		"a weight of nothing is a refusal":      vary("Accept-Encoding", "gzip;q=0", "gzip", false),
		"another weight":                        vary("Accept-Encoding", "gzip;q=0.5, br", "gzip, br", false),
		"more codings":                          vary("Accept-Encoding", "gzip", "gzip, br", false),
		"languages in another case":             vary("Accept-Language", "EN, mn;q=0.5", "en,mn; q=0.50", true),
		"other languages":                       vary("Accept-Language", "en", "mn", false),
		"weights that differ":                   vary("Accept-Language", "en, mn;q=0.5", "mn, en;q=0.5", false),
		"Vary: *":                               vary("*", "-", "-", false),
		"* among names":                         {{origin: []string{"Cache-Control", "max-age=60", "Vary", "X-Kind, *"}, sends: "first"}, {origin: []string{"Vary", "x"}, sends: "second", body: "second"}},
		"* in another field":                    {{origin: []string{"Cache-Control", "max-age=60", "Vary", "X-Kind", "Vary", "*"}, sends: "first"}, {origin: []string{"Vary", "x"}, sends: "second", body: "second"}},
		"the language that a client likes best": {{ask: []string{"Accept-Language", "mn"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "Accept-Language", "Content-Language", "mn"}, sends: "first"}, {ask: []string{"Accept-Language", "mn, en;q=0.5"}, body: "first"}},
		"two fields, one differs": {
			{ask: []string{"A", "1", "B", "1"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A, B"}, sends: "first"},
			{ask: []string{"A", "1", "B", "2"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A, B"}, sends: "second", body: "second"},
			{ask: []string{"B", "1", "A", "1"}, body: "first"}, {ask: []string{"A", "1", "B", "2"}, body: "second"}},
		"values of one field do not run into another": {
			{ask: []string{"A", "1\nb:2", "B", ""}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A, B"}, sends: "first"},
			{ask: []string{"A", "1", "B", "2"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A, B"}, sends: "second", body: "second"}},
		"a change takes all variants out": {
			{ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A"}, sends: "first"},
			{method: "PUT", origin: []string{"X", "y"}},
			{ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A"}, sends: "second", body: "second"}},
		"a 304 that makes the response vary": {
			{ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`}, sends: "first"},
			{wait: minute, ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Vary", "A"}, says: 304, body: "first"},
			{ask: []string{"A", "2"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A"}, sends: "second", body: "second"}},
		"a 304 that makes the response vary by anything": {
			{origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`}, sends: "first"},
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Vary", "*"}, says: 304, body: "first"},
			{origin: []string{"Cache-Control", "max-age=60"}, sends: "second", body: "second"}},
		"a HEAD that makes the response vary": {
			{ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`}, sends: "first"},
			{wait: minute, method: "HEAD", ask: []string{"A", "1"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Vary", "A"}, sends: "first"},
			{ask: []string{"A", "2"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A"}, sends: "second", body: "second"}},
	}
}

// RFC 9111, 3.2, 4.3 and 4.4.
func updateRules() map[string][]step {
	stale := func(fields ...string) step {
		return step{origin: append([]string{"Cache-Control", "max-age=5", "ETag", `"a"`, "X-Old", "1"}, fields...), sends: "first"}
	}
	return map[string][]step{
		"a 304 updates fields and keeps the others": {stale("X-New", "1"),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "X-New", "2"}, says: 304, sees: []string{"If-None-Match", `"a"`}, body: "first", has: []string{"X-Old", "1", "X-New", "2", "Age", "0"}},
			{body: "first", has: []string{"X-Old", "1", "X-New", "2"}}},
		"a 304 does not change how the body is coded and how long it is": {stale("Content-Encoding", "x"),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "Content-Length", "0", "Content-Encoding", "y", "Content-Range", "bytes 0-1/2"}, says: 304, body: "first", has: []string{"Content-Encoding", "x", "Content-Length", "5", "Content-Range", ""}}},
		"a 304 of another strong tag is about something else": {stale(),
			{wait: minute, origin: []string{"ETag", `"b"`}, says: 304, status: 304}},
		"a weak tag stays weak": {{origin: []string{"Cache-Control", "max-age=5", "ETag", `W/"a"`}, sends: "first"},
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 304, body: "first"},
			{ask: []string{"Range", "bytes=0-1", "If-Range", `"a"`}, body: "first"}},
		"a 304 that has an age": {stale(),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Age", "50"}, says: 304, body: "first", has: []string{"Age", "50"}},
			{wait: 5 * time.Second, body: "first", has: []string{"Age", "55"}},
			{wait: 5 * time.Second, origin: []string{"ETag", `"a"`}, says: 304, body: "first"}},
		"a 304 without Cache-Control leaves private fields private": {
			{origin: []string{"Cache-Control", `max-age=5, private="X-User"`, "ETag", `"a"`, "X-User", "one"}, sends: "first", has: []string{"X-User", "one"}},
			{wait: minute, origin: []string{"ETag", `"a"`, "X-User", "two"}, says: 304, body: "first"},
			{wait: time.Second, has: []string{"X-User", ""}, body: "first"}},
		"fields that no-cache names are not served from the store": {
			{origin: []string{"Cache-Control", `max-age=60, no-cache="X-User"`, "X-User", "one"}, sends: "first", has: []string{"X-User", "one"}},
			{has: []string{"X-User", ""}, body: "first"}},
		"fields of one hop are not stored": {
			{origin: []string{"Cache-Control", "max-age=60", "Connection", "X-Hop", "X-Hop", "1", "Proxy-Authentication-Info", "x"}, sends: "first"},
			{has: []string{"X-Hop", "", "Proxy-Authentication-Info", ""}}},
		"HEAD updates what is stored": {stale(),
			{wait: minute, method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "X-Old", "2"}, sends: "first"},
			{body: "first", has: []string{"X-Old", "2"}}},
		"HEAD with another length takes it out": {stale(),
			{wait: minute, method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, sends: "longer than it"},
			{origin: []string{"Cache-Control", "max-age=60"}, sends: "second", body: "second"}},
		"HEAD with another tag takes it out": {stale(),
			{wait: minute, method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"b"`}, sends: "first"},
			{origin: []string{"Cache-Control", "max-age=60"}, sends: "second", body: "second"}},
		"an unsafe method takes out its URL": {storing("first"), {method: "DELETE", origin: []string{"X", "y"}},
			{origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"one that fails does not":    {storing("first"), {method: "DELETE", origin: []string{"X", "y"}, says: 403, status: 403}, {body: "first"}},
		"a method nobody knows does": {storing("first"), {method: "FOO", origin: []string{"X", "y"}}, {origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"a safe one does not":        {storing("first"), {method: "OPTIONS", origin: []string{"X", "y"}}, {body: "first"}},
		"Location is taken out": {storing("first"), {method: "POST", path: "/b", origin: []string{"Location", "/"}, says: 303, status: 303},
			{origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Content-Location is taken out": {storing("first"), {method: "POST", path: "/b/c", origin: []string{"Content-Location", "../"}},
			{origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"that of another host is not": {storing("first"), {method: "POST", path: "/b", origin: []string{"Location", "http://other.example/"}}, {body: "first"}},
		"stale-while-revalidate serves, and asks meanwhile": {
			{origin: []string{"Cache-Control", "max-age=5, stale-while-revalidate=100"}, sends: "first"},
			{wait: 10 * time.Second, origin: []string{"Cache-Control", "max-age=5"}, sends: "second", body: "first"},
			{body: "second"}},
		"stale-while-revalidate ends": {
			{origin: []string{"Cache-Control", "max-age=5, stale-while-revalidate=100"}, sends: "first"},
			{wait: 5 * minute, origin: []string{"Cache-Control", "max-age=5"}, sends: "second", body: "second"}},
		"must-revalidate goes before it": {
			{origin: []string{"Cache-Control", "max-age=5, stale-while-revalidate=100, must-revalidate"}, sends: "first"},
			{wait: 10 * time.Second, origin: []string{"Cache-Control", "max-age=5"}, sends: "second", body: "second"}},
		"stale-if-error": {
			{origin: []string{"Cache-Control", "max-age=5, stale-if-error=100"}, sends: "first"},
			{wait: 10 * time.Second, origin: []string{"X", "y"}, says: 503, body: "first"},
			{method: "HEAD", origin: []string{"X", "y"}, says: 503, has: []string{"Content-Length", "5"}},
			{wait: 5 * minute, origin: []string{"X", "y"}, says: 503, status: 503}},
		"stale-if-error of the request": {
			{origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`}, sends: "first"},
			{wait: 10 * time.Second, ask: []string{"Cache-Control", "stale-if-error=100"}, origin: []string{"X", "y"}, says: 500, body: "first"},
			{origin: []string{"X", "y"}, says: 500, status: 500}},
		"stale-if-error is not for 404": {
			{origin: []string{"Cache-Control", "max-age=5, stale-if-error=100"}, sends: "first"},
			{wait: 10 * time.Second, origin: []string{"X", "y"}, says: 404, status: 404}},
		"must-revalidate goes before stale-if-error": {
			{origin: []string{"Cache-Control", "max-age=5, stale-if-error=100, must-revalidate"}, sends: "first"},
			{wait: 10 * time.Second, origin: []string{"X", "y"}, says: 503, status: 503}},
	}
}

// RFC 9111, 3, 4.2 and 5.1.
func ageRules() map[string][]step {
	again := func(control string, fields ...string) []step {
		return []step{{origin: append([]string{"Cache-Control", control}, fields...), sends: "first"}, {origin: []string{"X", "y"}, sends: "second", body: "second"}}
	}
	kept := func(control string, fields ...string) []step {
		return []step{{origin: append([]string{"Cache-Control", control}, fields...), sends: "first"}, {body: "first"}}
	}
	authorized := func(control string, shared bool) []step {
		trial := kept(control)
		if !shared {
			trial = again(control)
		}
		trial[0].ask = []string{"Authorization", "Basic eA=="}
		return trial
	}
	status := func(n int, control string, shared bool) []step {
		trial := kept(control)
		if !shared {
			trial = again(control)
		}
		trial[0].says, trial[0].status = n, n
		if shared {
			trial[1].status = n
		}
		return trial
	}
	return map[string][]step{
		"the age of another cache counts": {
			{origin: []string{"Cache-Control", "max-age=60", "Age", "50"}, sends: "first"},
			{wait: 9 * time.Second, body: "first", has: []string{"Age", "59"}},
			{wait: time.Second, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"a date in the past is an age": {
			{origin: []string{"Cache-Control", "max-age=60", "Date", at(-30 * time.Second)}, sends: "first"},
			{wait: 20 * time.Second, body: "first", has: []string{"Age", "50"}},
			{wait: 10 * time.Second, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"a clock that is ahead does not make it younger": {
			{origin: []string{"Cache-Control", "max-age=60", "Date", at(hour)}, sends: "first"},
			{wait: 30 * time.Second, body: "first", has: []string{"Age", "30"}},
			{wait: 30 * time.Second, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Expires is held against the origin's clock": {
			{origin: []string{"Date", at(hour), "Expires", at(hour + minute)}, sends: "first"},
			{wait: 59 * time.Second, body: "first"},
			{wait: time.Second, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Expires of a clock that is behind": {
			{origin: []string{"Date", at(-hour), "Expires", at(-hour + minute), "ETag", `"a"`}, sends: "first"},
			{origin: []string{"X", "y"}, says: 304, body: "first"}},
		"max-age goes before Expires":      again("max-age=0", "Expires", at(hour), "ETag", `"a"`),
		"s-maxage goes before max-age":     again("max-age=60, s-maxage=0", "ETag", `"a"`),
		"an age that is more than max-age": again("max-age=60", "Age", "60", "ETag", `"a"`),
		"an age that is no number":         kept("max-age=60", "Age", "x"),
		"an age that no number holds":      again("max-age=60", "Age", "99999999999999999999", "ETag", `"a"`),
		"no-store":                         again("no-store, max-age=60"),
		"private":                          again("private, max-age=60"),
		"no-cache":                         again("no-cache", "ETag", `"a"`),
		"must-understand, understood":      kept("no-store, must-understand, max-age=60"),
		"must-understand, not understood":  status(599, "max-age=60, must-understand", false),
		"a status nobody knows":            status(599, "max-age=60", true),
		"404 with a lifetime":              status(404, "max-age=60", true),
		"302 without one":                  status(302, "x", false),
		"302 that is public and modified":  {{origin: []string{"Cache-Control", "public", "Last-Modified", at(-100 * minute)}, says: 302, status: 302}, {status: 302}},
		"a tenth of the time since it was modified": {
			{origin: []string{"Last-Modified", at(-100 * minute)}, sends: "first"},
			{wait: 9 * minute, body: "first"},
			{wait: 2 * minute, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Authorization":                     authorized("max-age=60", false),
		"Authorization and public":          authorized("max-age=60, public", true),
		"Authorization and must-revalidate": authorized("max-age=60, must-revalidate", true),
		"Authorization and s-maxage":        authorized("s-maxage=60", true),
		"a cookie without a lifetime":       {{origin: []string{"Set-Cookie", "a=b", "Last-Modified", at(-hour)}, sends: "first"}, {origin: []string{"X", "y"}, sends: "second", body: "second"}},
	}
}

// RFC 9111, 5.2.1; RFC 9211.
func requestRules() map[string][]step {
	ask := func(wait time.Duration, control string, served bool) []step {
		s := step{wait: wait, ask: []string{"Cache-Control", control}, origin: []string{"X", "y"}, sends: "second", body: "second"}
		if served {
			s.origin, s.body = nil, "first"
		}
		return []step{storing("first"), s}
	}
	return map[string][]step{
		"max-age of the request":               ask(30*time.Second, "max-age=20", false),
		"max-age of the request that is kept":  ask(30*time.Second, "max-age=30", true),
		"min-fresh":                            ask(30*time.Second, "min-fresh=31", false),
		"min-fresh that is kept":               ask(30*time.Second, "min-fresh=30", true),
		"max-stale":                            ask(70*time.Second, "max-stale=10", true),
		"max-stale that is passed":             ask(71*time.Second, "max-stale=10", false),
		"max-stale of any time":                ask(hour, "max-stale", true),
		"no-cache of the request":              ask(0, "no-cache", false),
		"a directive nobody knows":             ask(0, "x=y", true),
		"only-if-cached":                       ask(0, "only-if-cached", true),
		"only-if-cached and nothing is stored": {{ask: []string{"Cache-Control", "only-if-cached"}, status: 504, has: []string{"Cache-Control", "no-store", "Cache-Status", `shuultuur; detail="only-if-cached"`}}},
		"only-if-cached and it is stale":       {storing("first"), {wait: hour, ask: []string{"Cache-Control", "only-if-cached"}, status: 504}},
		"no-store of the request stores nothing": {
			{ask: []string{"Cache-Control", "no-store"}, origin: []string{"Cache-Control", "max-age=60"}, sends: "first"},
			{origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Pragma":                      {storing("first"), {ask: []string{"Pragma", "no-cache"}, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Pragma beside Cache-Control": {storing("first"), {ask: []string{"Pragma", "no-cache", "Cache-Control", "max-age=60"}, body: "first"}},
		"If-None-Match":               {storing("first"), {ask: []string{"If-None-Match", `"b", W/"a"`}, status: 304, has: []string{"ETag", `"a"`, "Content-Length", "", "Cache-Control", "max-age=60"}}},
		"If-None-Match: *":            {storing("first"), {ask: []string{"If-None-Match", "*"}, status: 304}},
		"If-None-Match goes before If-Modified-Since":                  {storing("first"), {ask: []string{"If-None-Match", `"b"`, "If-Modified-Since", at(0)}, body: "first"}},
		"If-Modified-Since":                                            {storing("first"), {ask: []string{"If-Modified-Since", at(-hour)}, status: 304}},
		"If-Modified-Since, earlier":                                   {storing("first"), {ask: []string{"If-Modified-Since", at(-2 * hour)}, body: "first"}},
		"Cache-Status of a hit":                                        {storing("first"), {wait: 20 * time.Second, has: []string{"Cache-Status", "shuultuur; hit; ttl=40"}}},
		"Cache-Status of a miss":                                       {{origin: []string{"Cache-Control", "max-age=60", "Cache-Status", "other; hit"}, has: []string{"Cache-Status", "other; hit"}}, {}},
		"the origin's conditions are the cache's":                      {storing("first"), {wait: hour, ask: []string{"If-None-Match", `"b"`}, sees: []string{"If-None-Match", `"a"`}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 304, body: "first"}},
		"what the client has is not sent again after it was validated": {storing("first"), {wait: hour, ask: []string{"If-None-Match", `"a"`}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 304, status: 304}},
	}
}

// TestRulesHoldForRefreshes: the rules also apply to a refresh in the background, which does
// not belong to a client.
func TestRulesHoldForRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := open(t, Config{Rules: []Rule{{Category: []string{"news"}, Max: setting.Duration(10 * time.Second)}}}, Parts{})
		front := c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			asked++
			return respond(200, "x", "Cache-Control", "max-age=3600, stale-while-revalidate=60"), nil
		}))
		ctx := filter.With(t.Context(), &filter.Transaction{Findings: []filter.Finding{{Check: "category", Category: "news"}}})
		for i, want := range []int{1, 2, 3} { // each after the first gets a stale response and triggers a refresh
			send(t, front, ctx, request("GET", "http://example.org/"))
			synctest.Wait()
			if asked != want {
				t.Errorf("after request %d the origin was asked %d times, want %d", i+1, asked, want)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// TestASharedFetchSatisfiesEachRequest: a request that waits for another's fetch gets its
// response only if it satisfies the request.
func TestASharedFetchSatisfiesEachRequest(t *testing.T) {
	for control, want := range map[string]int{"max-age=1000": 1, "max-age=10": 2, "min-fresh=900": 2, "min-fresh=800": 1} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
				asked++
				time.Sleep(time.Second)
				r, w := io.Pipe()
				go func() { time.Sleep(time.Second); w.Write([]byte("x")); w.Close() }()
				s := respond(200, "", "Cache-Control", "max-age=1000", "Age", "100")
				s.Fields.Del("Content-Length")
				s.Length, s.Body = message.Chunked, &streamed{r: r}
				return s, nil
			}))
			ended := make(chan bool)
			go func() { send(t, front, t.Context(), request("GET", "http://example.org/")); close(ended) }()
			synctest.Wait()
			send(t, front, t.Context(), request("GET", "http://example.org/", "Cache-Control", control))
			<-ended
			if asked != want {
				t.Errorf("%s: the origin was asked %d times, want %d", control, asked, want)
			}
		})
	}
}

// oddRules has fields that origins and clients seldom send, or should not send.
func oddRules() map[string][]step {
	again := step{origin: []string{"X", "y"}, sends: "second", body: "second"}
	first := func(fields ...string) step {
		return step{origin: append([]string{"Date", at(0)}, fields...), sends: "first", body: "first"}
	}
	kept := func(fields ...string) []step { return []step{first(fields...), {body: "first"}} }
	gone := func(fields ...string) []step { return []step{first(fields...), again} }
	validated := func(fields ...string) []step {
		return []step{first(fields...), {origin: []string{"ETag", `"a"`}, says: 304, sees: []string{"If-None-Match", `"a"`}, body: "first"}}
	}
	part := func(span, sends, tag string) step {
		return step{ask: []string{"Range", "bytes=" + strings.TrimSuffix(span, "/10")}, says: 206, status: 206, sends: sends,
			origin: []string{"Cache-Control", "max-age=60", "ETag", tag, "Content-Range", "bytes " + span}}
	}
	return map[string][]step{
		"no-store on a second line":                  gone("Cache-Control", "max-age=60", "Cache-Control", "no-store"),
		"the same max-age twice":                     kept("Cache-Control", "max-age=60, max-age=60"),
		"two values of max-age":                      validated("Cache-Control", "max-age=60, max-age=600", "ETag", `"a"`),
		"max-age in quotes":                          kept("Cache-Control", `max-age="60"`),
		"max-age with a fraction":                    validated("Cache-Control", "max-age=60.5", "ETag", `"a"`),
		"a negative max-age":                         validated("Cache-Control", "max-age=-1", "ETag", `"a"`),
		"max-age behind a semicolon":                 validated("Cache-Control", "max-age=60; public", "ETag", `"a"`),
		"an Age that no number holds":                validated("Cache-Control", "max-age=60", "Age", "99999999999999999999999", "ETag", `"a"`),
		"an Age that is none":                        kept("Cache-Control", "max-age=60", "Age", "-100"),
		"of several ages the first":                  kept("Cache-Control", "max-age=60", "Age", "5", "Age", "1000"),
		"Expires on a day that is not":               validated("Expires", "Tue, 30 Feb 2000 00:00:00 GMT", "ETag", `"a"`),
		"Expires on the 29th of February":            kept("Expires", "Tue, 29 Feb 2000 00:00:00 GMT"),
		"Expires in another time zone":               validated("Expires", "Tue, 29 Feb 2000 00:00:00 UTC", "ETag", `"a"`),
		"Vary: * on a second line":                   gone("Cache-Control", "max-age=60", "Vary", "Accept", "Vary", "*"),
		"Vary: * within a list":                      gone("Cache-Control", "max-age=60", "Vary", "Accept, *"),
		"an empty Vary":                              kept("Cache-Control", "max-age=60", "Vary", " , ,"),
		"no-cache with max-age":                      validated("Cache-Control", "max-age=60, NO-CACHE", "ETag", `"a"`),
		"s-maxage=0 beside max-age":                  validated("Cache-Control", "max-age=60, s-maxage=0", "ETag", `"a"`),
		"must-understand of an unknown status":       {{origin: []string{"Cache-Control", "max-age=60, no-store, must-understand"}, says: 299, status: 299, sends: "first"}, again},
		"must-understand of a known one":             {{origin: []string{"Cache-Control", "max-age=60, no-store, must-understand"}, says: 404, status: 404, sends: "first"}, {status: 404, body: "first"}},
		"Authorization with public":                  {{ask: []string{"Authorization", "x"}, origin: []string{"Cache-Control", "max-age=60, public"}, sends: "first"}, {body: "first"}},
		"Authorization with must-revalidate":         {{ask: []string{"Authorization", "x"}, origin: []string{"Cache-Control", "max-age=60, must-revalidate"}, sends: "first"}, {body: "first"}},
		"Authorization with max-age":                 {{ask: []string{"Authorization", "x"}, origin: []string{"Cache-Control", "max-age=60"}, sends: "first"}, again},
		"immutable does not outweigh no-cache":       {first("Cache-Control", "max-age=60, immutable", "ETag", `"a"`), {ask: []string{"Cache-Control", "no-cache"}, origin: []string{"ETag", `"a"`}, says: 304, body: "first"}},
		"max-stale does not outweigh s-maxage":       {first("Cache-Control", "s-maxage=60", "ETag", `"a"`), {wait: 2 * minute, ask: []string{"Cache-Control", "max-stale"}, origin: []string{"ETag", `"a"`}, says: 304, body: "first"}},
		"stale-if-error of a request":                {first("Cache-Control", "max-age=60"), {wait: 2 * minute, ask: []string{"Cache-Control", "stale-if-error=600"}, origin: []string{"X", "y"}, says: 503, body: "first"}},
		"stale-if-error of a request that has ended": {first("Cache-Control", "max-age=60"), {wait: hour, ask: []string{"Cache-Control", "stale-if-error=600"}, origin: []string{"X", "y"}, says: 503, status: 503}},
		"only-if-cached of what is stale":            {first("Cache-Control", "max-age=60"), {wait: hour, ask: []string{"Cache-Control", "only-if-cached"}, status: 504}},
		"a HEAD that has the tag already":            {first("Cache-Control", "max-age=60", "ETag", `"a"`), {wait: minute / 2, method: "HEAD", ask: []string{"If-None-Match", `"a"`, "Cache-Control", "no-cache"}, origin: []string{"ETag", `"a"`}, says: 304, status: 304}, {body: "first"}},
		"a HEAD of a part keeps it": {part("2-4/10", "234", `"a"`),
			{method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "X-New", "1"}, sends: "0123456789"},
			{ask: []string{"Range", "bytes=2-4"}, status: 206, body: "234", has: []string{"X-New", "1"}}},
		"a HEAD of another length takes a part out": {part("2-4/10", "234", `"a"`),
			{method: "HEAD", origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, sends: "012345678"},
			{ask: []string{"Range", "bytes=2-4"}, origin: []string{"X", "y"}, status: 200, sends: "new", body: "new"}},
		"parts with weak tags are not combined": {part("0-4/10", "01234", `W/"a"`), part("5-9/10", "56789", `W/"a"`),
			{origin: []string{"X", "y"}, sends: "whole", body: "whole"}},
		"parts with a gap are not combined": {part("0-2/10", "012", `"a"`), part("6-9/10", "6789", `"a"`),
			{origin: []string{"X", "y"}, sends: "whole", body: "whole"}},
		"parts that overlap are": {part("0-6/10", "0123456", `"a"`), part("4-9/10", "456789", `"a"`), {body: "0123456789"}},
		"parts from the end are": {part("5-9/10", "56789", `"a"`), part("0-4/10", "01234", `"a"`), {body: "0123456789"}},
		"Location with the usual port and another case": {first("Cache-Control", "max-age=60"),
			{method: "POST", path: "/b", origin: []string{"Location", "HTTP://EXAMPLE.org:80/"}}, again},
		"Location of another scheme": {first("Cache-Control", "max-age=60"), {method: "POST", path: "/b", origin: []string{"Location", "https://example.org/"}}, {body: "first"}},
	}
}
