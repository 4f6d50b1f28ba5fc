package protocol

import (
	"fmt"
	"testing"

	"shuultuur/lib/message"
)

func TestDirectivesThatNameFields(t *testing.T) {
	for _, c := range []struct {
		value                     string
		noStore, noCache, private bool
		fields                    int
	}{
		{`private="set-cookie", max-age=5`, false, false, false, 1},
		{`private="a, b", no-cache="c"`, false, false, false, 3},
		{`no-cache=a`, false, false, false, 1},
		{`private=""`, false, false, true, 0},
		{`private="a b"`, false, false, true, 0},
		{`private="a, Vary"`, false, false, true, 0},
		{`no-cache="content-encoding"`, false, true, false, 0},
		{`private="cache-control"`, false, false, true, 0},
		{`x="a, no-store"`, false, false, false, 0},
		{`x="a\", private", max-age=5`, false, false, false, 0},
		{`x="a, no-store`, true, true, false, 0},
		{`x=a"b, private`, true, true, false, 0},
		{`private="a, max-age=5`, true, true, true, 0},
		{`x="a"b, private`, true, true, true, 0},
	} {
		d := Control(message.Fields{{Name: []byte("Cache-Control"), Value: []byte(c.value)}})
		got := fmt.Sprint(d.NoStore, d.NoCache, d.Private, len(d.Fields))
		if want := fmt.Sprint(c.noStore, c.noCache, c.private, c.fields); got != want {
			t.Errorf("%s: no-store, no-cache, private, fields are %s, want %s", c.value, got, want)
		}
	}
}
