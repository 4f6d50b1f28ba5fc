package cache

import (
	"reflect"
	"strings"
	"testing"

	"shuultuur/lib/message"
)

// TestPackingPreservesObjects compares objects of responses with rare properties
// before they are packed and after their first request.
func TestPackingPreservesObjects(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		status int
		fields []string
		packed bool
	}{
		"a page":             {"text", 200, []string{"Cache-Control", "max-age=60", "Content-Type", "text/html", "ETag", `"a"`, "Last-Modified", at(-1000)}, true},
		"no body":            {"", 404, []string{"Cache-Control", "s-maxage=9, no-cache", "ETag", `"a"`}, true},
		"a guessed lifetime": {"text", 200, []string{"Last-Modified", at(-1000)}, true},
		"tags":               {"text", 200, []string{"Cache-Control", "max-age=60", "Surrogate-Key", "a b"}, true},
		"a part":             {"text", 206, []string{"Cache-Control", "max-age=60", "ETag", `"a"`, "Content-Range", "bytes 3-6/10"}, true},
		"variants":           {"text", 200, []string{"Cache-Control", "max-age=60", "Vary", "Accept-Encoding"}, true},
		"the largest":        {strings.Repeat("x", mostPacked), 200, []string{"Cache-Control", "max-age=60"}, true},
		"a larger one":       {strings.Repeat("x", mostPacked+1), 200, []string{"Cache-Control", "max-age=60"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ch := open(t, Config{Memory: 4 << 20}, Parts{})
			front := ch.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
				return respond(c.status, c.body, c.fields...), nil
			}))
			q := request("GET", "http://example.org/a?b")
			if c.status == 206 {
				q.Fields.Add("Range", "bytes=3-6")
			}
			s, err := front.RoundTrip(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			s.Body.Close()
			var k Key
			var e entry
			ch.memory.All(func(at Key, v entry) bool {
				if k, e = at, v; v.object != nil && v.marks != nil {
					return true // a mark is never packed
				}
				return false
			})
			if got := e.object == nil; got != c.packed {
				t.Fatalf("the object was packed: %v, want %v", got, c.packed)
			}
			if !c.packed {
				return
			}
			first, _ := decode(e.packed[4:])
			o, _ := ch.find(ch.appendName(nil, q, nil), q)
			if o == nil || text(o) != c.body || o.length != int64(len(c.body)) || o.res.Length != o.length || o.verdicts != e.verdicts {
				t.Fatalf("the unpacked object is %+v", o)
			}
			if !reflect.DeepEqual(o.facts, first.facts) || o.res.Status != c.status || !reflect.DeepEqual(o.labels, first.labels) || o.size != first.size || o.offset != first.offset {
				t.Errorf("the unpacked object is %+v, want %+v", o, first)
			}
			if now, _ := ch.memory.Peek(k); now.object != o || o.parent != e.parent || (len(o.res.Get("Vary")) > 0) != (o.parent != nil) {
				t.Errorf("after the first request memory has %+v with the parent %v", now, o.parent)
			}
			ch.remove([]byte(o.name))
			if o.parent != nil {
				ch.remove([]byte(o.parent.name))
			}
			if n, b := ch.memory.Len(), ch.memory.Bytes(); n != 0 || b != 0 {
				t.Errorf("after removal %d objects with %d bytes are left", n, b)
			}
		})
	}
}
