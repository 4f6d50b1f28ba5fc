package content_test

import (
	"testing"

	"shuultuur/content"
)

func TestABodyInOneBlockIsReadBehindOtherBytesInPlace(t *testing.T) {
	const body = "the whole body"
	for name, x := range map[string]struct {
		room   int
		apart  bool // the room is elsewhere
		before string
		ok     bool
	}{
		"there is room":        {10, false, "head", true},
		"just enough":          {4, false, "head", true},
		"too little":           {3, false, "head", false},
		"no room":              {0, false, "head", false},
		"nothing before":       {0, false, "", true},
		"the room is not next": {10, true, "head", false},
	} {
		mem := append(make([]byte, x.room), body...)
		room := mem[:x.room]
		if x.apart {
			room = make([]byte, x.room, 100)
		}
		var b content.Body
		b.Reset(&content.Head{}, content.Limits{})
		b.SetRoom(room)
		b.Append(mem[x.room:])
		b.Finish()
		data, err := b.Decoded()
		if err != nil || string(data) != body {
			t.Fatalf("%s: the body is %q, %v", name, data, err)
		}
		all, ok := b.DecodedAfter([]byte(x.before))
		if ok != x.ok || ok && (string(all) != x.before+body || &all[len(x.before)] != &data[0]) {
			t.Errorf("%s: got %q, %t, want %t and the same memory", name, all, ok, x.ok)
		}
		b.Release()
	}
}
