package markup_test

import (
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

func TestTextIsWhatABrowserShows(t *testing.T) {
	for _, c := range reading.Shown {
		t.Run(c.Name, func(t *testing.T) {
			if got := reading.Text(t, "text/html; charset=utf-8", c.In); got != c.Want {
				t.Errorf("Text of %q\n got %q\nwant %q", c.In, got, c.Want)
			}
		})
	}
}

func TestTextDoesNotDependOnThePieces(t *testing.T) {
	for _, c := range reading.Shown {
		for _, size := range []int{1, 2, 3, 5} {
			var b content.Body
			b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
			var before string
			for rest := c.In; rest != ""; {
				n := min(size, len(rest))
				b.Append([]byte(rest[:n]))
				rest = rest[n:]
				got, _ := b.Text()
				if !strings.HasPrefix(string(got), before) {
					t.Errorf("%s: the text %q became %q with more of the body", c.Name, before, got)
				}
				before = string(got)
				b.Forget()
			}
			b.Finish()
			if got, _ := b.Text(); string(got) != c.Want {
				t.Errorf("%s, %d bytes at a time: the text is %q, want %q", c.Name, size, got, c.Want)
			}
			b.Release()
		}
	}
}
