package cache

import (
	"strings"
	"time"
)

// rareRules has cases of RFC 9110 and RFC 9111 about fields in rare but permitted forms, and
// in wrong but common ones.
func rareRules() map[string][]step {
	all := map[string][]step{}
	for _, some := range []map[string][]step{rareLifetimes(), rareConditions(), rareRanges(), rareChanges()} {
		for name, trial := range some {
			all[name] = trial
		}
	}
	return all
}

// again is a request that the cache must not answer.
var again = step{origin: []string{"X", "y"}, sends: "second", body: "second"}

func answered(fields ...string) step {
	return step{origin: append([]string{"Date", at(0)}, fields...), sends: "first", body: "first"}
}

// RFC 9111, 4.2, 5.2 and 5.3.
func rareLifetimes() map[string][]step {
	kept := func(fields ...string) []step { return []step{answered(fields...), {body: "first"}} }
	gone := func(fields ...string) []step { return []step{answered(fields...), again} }
	stale := func(fields ...string) []step {
		return []step{answered(append(fields, "ETag", `"a"`)...), {origin: []string{"ETag", `"a"`}, says: 304, sees: []string{"If-None-Match", `"a"`}, body: "first"}}
	}
	return map[string][]step{
		"an extension with directives in quotes":          kept("Cache-Control", `x="no-store, max-age=0", max-age=60`),
		"an extension with a quote in quotes":             kept("Cache-Control", `x="a\", no-store", max-age=60`),
		"a string that does not end":                      gone("Cache-Control", `max-age=60, x="public`),
		"max-age in single quotes":                        stale("Cache-Control", "max-age='60'"),
		"max-age of nothing":                              stale("Cache-Control", "max-age="),
		"max-age without a value":                         stale("Cache-Control", "max-age"),
		"max-age with a sign":                             stale("Cache-Control", "max-age=+60"),
		"max-age with zeros":                              kept("Cache-Control", "max-age=00060"),
		"max-age of more than 32 bits":                    kept("Cache-Control", "max-age=4294967297"),
		"MAX-AGE":                                         kept("Cache-Control", "MAX-AGE=60"),
		"empty items":                                     kept("Cache-Control", ",, ,max-age=60,,"),
		"no-cache of no field":                            stale("Cache-Control", `max-age=60, no-cache=""`),
		"private of no field":                             gone("Cache-Control", `max-age=60, private=""`),
		"no-store with a value":                           gone("Cache-Control", `max-age=60, no-store=0`),
		"private names what may not be left out":          gone("Cache-Control", `max-age=60, private="Content-Type"`),
		"private names a field without quotes":            {answered("Cache-Control", "max-age=60, private=X-User", "X-User", "one"), {body: "first", has: []string{"X-User", ""}}},
		"private names fields in any case":                {answered("Cache-Control", `max-age=60, private="x-user , X-OTHER"`, "X-User", "one", "X-Other", "1", "X-More", "1"), {body: "first", has: []string{"X-User", "", "X-Other", "", "X-More", "1"}}},
		"no-cache names the cookie":                       {answered("Cache-Control", `max-age=60, no-cache="Set-Cookie"`, "Set-Cookie", "a=b"), {body: "first", has: []string{"Set-Cookie", ""}}},
		"Pragma of the origin means nothing":              kept("Pragma", "no-cache", "Cache-Control", "max-age=60"),
		"CDN-Cache-Control is not for us":                 kept("CDN-Cache-Control", "no-store", "Cache-Control", "max-age=60"),
		"Surrogate-Control is not for us":                 kept("Surrogate-Control", "no-store", "Cache-Control", "max-age=60"),
		"Expires: 0":                                      stale("Expires", "0"),
		"Expires: -1":                                     stale("Expires", "-1"),
		"an empty Expires":                                stale("Expires", ""),
		"Expires as a number of seconds":                  stale("Expires", "4102444800"),
		"two Expires that are the same":                   kept("Expires", at(minute), "Expires", at(minute)),
		"two Expires that differ":                         stale("Expires", at(minute), "Expires", at(hour)),
		"Expires in the form of RFC 850":                  kept("Expires", "Saturday, 01-Jan-00 01:00:00 GMT"),
		"Expires in the form of asctime":                  kept("Expires", "Sat Jan  1 01:00:00 2000"),
		"Expires in the year 9999":                        kept("Expires", "Fri, 31 Dec 9999 23:59:59 GMT"),
		"Expires before there were computers":             stale("Expires", "Thu, 01 Jan 1900 00:00:00 GMT"),
		"Expires with a leap second":                      kept("Expires", "Sat, 01 Jan 2000 00:59:60 GMT"),
		"Expires without Date":                            {{origin: []string{"Expires", at(minute)}, sends: "first"}, {body: "first"}},
		"Expires beside a Date that is none":              {{origin: []string{"Date", "yesterday", "Expires", at(minute)}, sends: "first"}, {body: "first"}},
		"Expires that equals Date":                        stale("Expires", at(0)),
		"max-age of nothing beside Expires":               stale("Cache-Control", "max-age=", "Expires", at(hour)),
		"s-maxage that is no number beside max-age":       stale("Cache-Control", "s-maxage=x, max-age=60"),
		"modified in the future":                          stale("Last-Modified", at(hour)),
		"modified on a day that is not":                   gone("Last-Modified", "Wed, 31 Nov 1999 00:00:00 GMT"),
		"heuristics last at most a day":                   {answered("Last-Modified", at(-100000*hour)), {wait: 23 * hour, body: "first"}, {wait: 2 * hour, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"heuristics are not for 302":                      {{origin: []string{"Last-Modified", at(-100 * hour), "ETag", `"a"`}, says: 302, status: 302, sends: "first"}, again},
		"heuristics are for 410":                          {{origin: []string{"Last-Modified", at(-100 * hour)}, says: 410, status: 410, sends: "first"}, {status: 410, body: "first"}},
		"public without a lifetime and modified":          kept("Cache-Control", "public", "Last-Modified", at(-hour)),
		"immutable keeps what a reload asks for":          {answered("Cache-Control", "max-age=60, immutable", "ETag", `"a"`), {wait: minute / 2, ask: []string{"Cache-Control", "max-age=0"}, body: "first"}},
		"immutable does not outlive its lifetime":         {answered("Cache-Control", "max-age=60, immutable", "ETag", `"a"`), {wait: 2 * minute, origin: []string{"ETag", `"a"`}, says: 304, body: "first"}},
		"stale-while-revalidate that is no number":        stale("Cache-Control", "max-age=0, stale-while-revalidate=x"),
		"min-fresh and max-stale together":                {answered("Cache-Control", "max-age=60"), {wait: 50 * minute / 60, ask: []string{"Cache-Control", "max-stale, min-fresh=30"}, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"only-if-cached with max-stale":                   {answered("Cache-Control", "max-age=60"), {wait: hour, ask: []string{"Cache-Control", "only-if-cached, max-stale=7200"}, body: "first"}},
		"only-if-cached of what must be validated":        {answered("Cache-Control", "max-age=60, must-revalidate", "ETag", `"a"`), {wait: hour, ask: []string{"Cache-Control", "only-if-cached, max-stale"}, status: 504}},
		"max-age of a request that is no number":          {answered("Cache-Control", "max-age=60", "ETag", `"a"`), {wait: aSecond, ask: []string{"Cache-Control", "max-age=x"}, origin: []string{"ETag", `"a"`}, says: 304, body: "first"}},
		"two ages on one line":                            {answered("Cache-Control", "max-age=60", "Age", "50, 0"), {wait: 20 * aSecond, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"an age with a sign is none":                      kept("Cache-Control", "max-age=60", "Age", "+100"),
		"the status of a response that says no-transform": kept("Cache-Control", "max-age=60, no-transform"),
		"the same field in two languages of Vary":         {{ask: []string{"a", "1"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A", "Vary", "a, A"}, sends: "first"}, {ask: []string{"A", "1"}, body: "first"}},
		"fields on two lines and on one":                  {{ask: []string{"A", "1", "A", "2"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "A"}, sends: "first"}, {ask: []string{"A", "1, 2"}, body: "first"}},
		"cookies in Vary":                                 {{ask: []string{"Cookie", "u=1"}, origin: []string{"Cache-Control", "max-age=60", "Vary", "Cookie"}, sends: "first"}, {ask: []string{"Cookie", "u=2"}, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"Connection with a list on two lines":             {answered("Cache-Control", "max-age=60", "Connection", "close , X-Hop", "Connection", "x-other", "X-Hop", "1", "X-Other", "1"), {body: "first", has: []string{"X-Hop", "", "X-Other", "", "Connection", ""}}},
	}
}

const aSecond = time.Second

// RFC 9110, 13; RFC 9111, 4.3.
func rareConditions() map[string][]step {
	asks := func(tag, condition string, status int) []step {
		return []step{{origin: []string{"Cache-Control", "max-age=60", "Date", at(0), "ETag", tag}, sends: "first"}, {ask: []string{"If-None-Match", condition}, status: status}}
	}
	since := func(date string, status int) []step {
		return []step{storing("first"), {ask: []string{"If-Modified-Since", date}, status: status}}
	}
	stale := func(fields ...string) step {
		return answered(append([]string{"Cache-Control", "max-age=5", "ETag", `"a"`}, fields...)...)
	}
	return map[string][]step{
		"a tag with a comma":                          asks(`"a,b"`, `"x", "a,b"`, 304),
		"a tag that ends with a backslash":            asks(`"b"`, `"a\", "b"`, 304),
		"a tag that is a backslash":                   asks(`"\"`, `"\"`, 304),
		"a part of a tag is not the tag":              asks(`"a,b"`, `"a`, 200),
		"an empty tag":                                asks(`""`, `"b", ""`, 304),
		"tags without spaces":                         asks(`"c"`, `"a","b",W/"c"`, 304),
		"w/ in lower case is no weak tag":             asks(`"a"`, `w/"a"`, 200),
		"tags on two lines":                           {answered("Cache-Control", "max-age=60", "ETag", `"b"`), {ask: []string{"If-None-Match", `"a"`, "If-None-Match", `"b"`}, status: 304}},
		"a condition on an error":                     {{origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 404, status: 404, sends: "first"}, {ask: []string{"If-None-Match", `"a"`}, status: 404, body: "first"}},
		"a date in the form of RFC 850":               since("Friday, 31-Dec-99 23:00:00 GMT", 304),
		"a date in the form of asctime":               since("Fri Dec 31 23:00:00 1999", 304),
		"a date that is none":                         since("yesterday", 200),
		"a date with a length, as browsers once sent": since(at(-hour)+"; length=5", 200),
		"an error leaves what is stored": {stale(),
			{wait: minute, origin: []string{"X", "y"}, says: 500, status: 500},
			{origin: []string{"ETag", `"a"`}, says: 304, sees: []string{"If-None-Match", `"a"`}, body: "first"}},
		"an absence takes it out": {stale(),
			{wait: minute, origin: []string{"X", "y"}, says: 404, status: 404},
			{origin: []string{"X", "y"}, sees: []string{"If-None-Match", ""}, sends: "second", body: "second"}},
		"a 304 changes the type": {stale("Content-Type", "text/plain"),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Type", "text/html"}, says: 304, body: "first", has: []string{"Content-Type", "text/html"}},
			{has: []string{"Content-Type", "text/html"}}},
		"a 304 with several values of a field": {stale("X-Many", "1"),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "X-Many", "2", "X-Many", "3"}, says: 304, body: "first", has: []string{"X-Many", "2"}}},
		"a 304 for what nobody stored": {{ask: []string{"If-None-Match", `"z"`}, origin: []string{"ETag", `"z"`, "Cache-Control", "max-age=60"}, says: 304, status: 304}, again},
		"a weak tag validates": {answered("Cache-Control", "max-age=5", "ETag", `W/"a"`),
			{wait: minute, origin: []string{"Cache-Control", "max-age=60", "ETag", `W/"a"`}, says: 304, sees: []string{"If-None-Match", `W/"a"`}, body: "first"}},
		"both validators are sent": {answered("Cache-Control", "max-age=5", "ETag", `"a"`, "Last-Modified", at(-hour)),
			{wait: minute, origin: []string{"ETag", `"a"`}, says: 304, sees: []string{"If-None-Match", `"a"`, "If-Modified-Since", at(-hour)}, body: "first"}},
	}
}

// RFC 9110, 14; RFC 9111, 3.3.
func rareRanges() map[string][]step {
	const text = "0123456789"
	part := func(ask string, status int, body, contentRange string) []step {
		return []step{storing(text), {ask: []string{"Range", ask}, status: status, body: body, has: []string{"Content-Range", contentRange}}}
	}
	return map[string][]step{
		"one byte":                          part("bytes=0-0", 206, "0", "bytes 0-0/10"),
		"the last byte":                     part("bytes=-1", 206, "9", "bytes 9-9/10"),
		"BYTES":                             part("BYTES=0-1", 206, "01", "bytes 0-1/10"),
		"a space behind the sign":           part("bytes= 0-1", 206, "01", "bytes 0-1/10"),
		"a range of nothing":                part("bytes=-", 200, text, ""),
		"a range without a dash":            part("bytes=1", 200, text, ""),
		"a range of three":                  part("bytes=0-1-2", 200, text, ""),
		"two dashes":                        part("bytes=--1", 200, text, ""),
		"a range in hexadecimal":            part("bytes=0x1-0x2", 200, text, ""),
		"a suffix range among several":      part("bytes=0-1,-2", 200, text, ""),
		"a range with a sign":               part("bytes=+1-2", 200, text, ""),
		"a range of an error":               {{origin: []string{"Cache-Control", "max-age=60"}, says: 404, status: 404, sends: text}, {ask: []string{"Range", "bytes=0-1"}, status: 404, body: text}},
		"a range of nothing stored":         {{origin: []string{"Cache-Control", "max-age=60"}}, {ask: []string{"Range", "bytes=0-1"}, status: 416, has: []string{"Content-Range", "bytes */0"}}},
		"an origin that knows no ranges":    {{ask: []string{"Range", "bytes=0-1"}, origin: []string{"Cache-Control", "max-age=60"}, sends: text, body: text}, {ask: []string{"Range", "bytes=2-3"}, status: 206, body: "23"}, {body: text}},
		"a range of a stale object":         {{origin: []string{"Cache-Control", "max-age=5", "ETag", `"a"`}, sends: text}, {wait: minute, ask: []string{"Range", "bytes=2-3"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 304, sees: []string{"Range", "", "If-None-Match", `"a"`}, status: 206, body: "23"}, {body: text}},
		"If-Range on two lines":             {storing(text), {ask: []string{"Range", "bytes=2-3", "If-Range", `"b"`, "If-Range", `"a"`}, status: 200, body: text}},
		"a 206 that nobody asked for":       {{origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"}, {ask: []string{"Range", "bytes=1-2"}, status: 206, body: "12"}},
		"a 206 without Content-Range":       {{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`}, says: 206, status: 206, sends: "01234"}, {ask: []string{"Range", "bytes=0-4"}, origin: []string{"X", "y"}, says: 206, status: 206, sends: "01234"}},
		"a 206 whose length is another":     {{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "012"}, {ask: []string{"Range", "bytes=0-4"}, origin: []string{"X", "y"}, says: 206, status: 206, sends: "01234"}},
		"a 206 that ends before it begins":  {{ask: []string{"Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 4-0/10"}, says: 206, status: 206, sends: "01234"}, {ask: []string{"Range", "bytes=0-4"}, origin: []string{"X", "y"}, says: 206, status: 206, sends: "01234"}},
		"a part of a variant":               {{ask: []string{"A", "1", "Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Vary", "A", "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "01234"}, {ask: []string{"A", "2", "Range", "bytes=0-4"}, origin: []string{"Cache-Control", "max-age=60", "ETag", `"b"`, "Vary", "A", "Content-Range", "bytes 0-4/10"}, says: 206, status: 206, sends: "abcde", body: "abcde"}, {ask: []string{"A", "1", "Range", "bytes=0-4"}, status: 206, body: "01234"}},
		"many ranges are served as a whole": part("bytes="+strings.Repeat("0-1,", 5000)+"2-3", 200, text, ""),
	}
}

// RFC 9110, 9.3.3; RFC 9111, 4, 4.4.
func rareChanges() map[string][]step {
	post := func(url string, fields ...string) step {
		return step{method: "POST", path: url, origin: append([]string{"Date", at(0)}, fields...), sends: "posted", body: "posted"}
	}
	return map[string][]step{
		"a POST that says it is what GET gets":    {post("/", "Cache-Control", "max-age=60", "Content-Location", "/"), {body: "posted"}},
		"a POST that says so of another URL":      {post("/", "Cache-Control", "max-age=60", "Content-Location", "/b"), again},
		"a POST that says nothing of it":          {post("/", "Cache-Control", "max-age=60"), again},
		"a POST without a lifetime":               {post("/", "Last-Modified", at(-hour), "Content-Location", "/"), again},
		"a POST that is not to be stored":         {post("/", "Cache-Control", "max-age=60, no-store", "Content-Location", "/"), again},
		"a POST is not answered from the cache":   {post("/", "Cache-Control", "max-age=60", "Content-Location", "/"), post("/")},
		"PATCH takes it out":                      {answered("Cache-Control", "max-age=60"), {method: "PATCH", origin: []string{"X", "y"}, says: 204, status: 204}, again},
		"a method in lower case is another one":   {answered("Cache-Control", "max-age=60"), {method: "get", origin: []string{"X", "y"}}, again},
		"PROPFIND changes nothing":                {answered("Cache-Control", "max-age=60"), {method: "PROPFIND", origin: []string{"X", "y"}, says: 207, status: 207}, {body: "first"}},
		"a change that is redirected":             {answered("Cache-Control", "max-age=60"), {method: "PUT", origin: []string{"Location", "/b"}, says: 307, status: 307}, again},
		"a change of another query":               {answered("Cache-Control", "max-age=60"), {method: "PUT", path: "/?a", origin: []string{"X", "y"}, says: 204, status: 204}, {body: "first"}},
		"Location that is no URL":                 {answered("Cache-Control", "max-age=60"), {method: "POST", path: "/b", origin: []string{"Location", "http://["}}, {body: "first"}},
		"Location with another port":              {answered("Cache-Control", "max-age=60"), {method: "POST", path: "/b", origin: []string{"Location", "http://example.org:8080/"}}, {body: "first"}},
		"Location with a fragment":                {answered("Cache-Control", "max-age=60"), {method: "POST", path: "/b", origin: []string{"Location", "/#top"}}, again},
		"Content-Location of an answer to GET":    {answered("Cache-Control", "max-age=60", "Content-Location", "/b"), {path: "/b", origin: []string{"X", "y"}, sends: "second", body: "second"}, {body: "first"}},
		"HEAD stores nothing":                     {{method: "HEAD", origin: []string{"Cache-Control", "max-age=60"}, sends: "first"}, again},
		"HEAD is answered by what GET stored":     {answered("Cache-Control", "max-age=60"), {method: "HEAD", has: []string{"Content-Length", "5"}}},
		"GET with a body goes by the cache":       {answered("Cache-Control", "max-age=60"), {ask: []string{"If-Match", `"a"`}, origin: []string{"X", "y"}, sends: "second", body: "second"}},
		"a fragment is not part of what a URL is": {answered("Cache-Control", "max-age=60"), {method: "POST", path: "/b", origin: []string{"Content-Location", "http://EXAMPLE.ORG/#x"}}, again},
	}
}
