//go:build unix

package content_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/content/limit"
	"shuultuur/test/race"
	"shuultuur/test/reading"
)

func TestBoundEndsReadingForGood(t *testing.T) {
	page := strings.Repeat("<p>one two three</p>", 100_000)
	for _, pieces := range []int{1, 100} {
		var b content.Body
		b.Reset(content.Describe("text/html", ""), content.Limits{})
		asked := 0
		b.Bound(func() bool { asked++; return asked == 3 })
		for i := range pieces {
			b.Append([]byte(page[i*len(page)/pieces : (i+1)*len(page)/pieces]))
			_ = b.Read(t.Context())
		}
		b.Bound(nil)
		b.Finish()
		text, err := b.Text()
		if !errors.Is(err, limit.ErrTookTooLong) || b.Unread() != content.TookTooLong || len(text) == 0 || len(text) > 200_000 || asked != 3 {
			t.Errorf("in %d pieces: read %d bytes of text, asked %d times, unread %q, error %v; want some text, 3, %q and an error", pieces, len(text), asked, b.Unread(), err, content.TookTooLong)
		}
		b.Release()
		b.Reset(content.Describe("text/html", ""), content.Limits{})
		if b.Unread() != content.AllRead {
			t.Errorf("the next body is unread: %s", b.Unread())
		}
	}
}

// Every reader asks whether it may go on, after at most a few tenths of a second, and ends when it
// may not.
func TestEveryReaderIsBound(t *testing.T) {
	race.Without(t)
	for _, g := range growingInputs(t) {
		t.Run(g.name, func(t *testing.T) {
			n := 4
			for len(g.of(n)) < 128<<10 && n < 1<<16 {
				n *= 2
			}
			p := []byte(g.of(n))
			read := func(most int) (asked int, why content.Reason) {
				var b content.Body
				b.Reset(content.Describe(g.typ, ""), content.Limits{Scripts: true})
				defer b.Release()
				last := reading.ProcessorTime()
				b.Bound(func() bool {
					now := reading.ProcessorTime()
					if asked++; now-last > 400*time.Millisecond {
						t.Errorf("%s pass between two questions", now-last)
					}
					last = now
					return asked == most
				})
				b.Append(p)
				b.Finish()
				_, err := b.Text()
				if why = b.Unread(); (why == content.TookTooLong) != errors.Is(err, limit.ErrTookTooLong) {
					t.Errorf("unread %q, error %v", why, err)
				}
				return asked, why
			}
			all, _ := read(0)
			if least := len(p) / limit.AskedAfter / 2; all < least {
				t.Fatalf("reading %d bytes asked %d times, want at least %d", len(p), all, least)
			}
			if asked, why := read((all + 1) / 2); asked != (all+1)/2 || why != content.TookTooLong {
				t.Errorf("it asked %d times and is unread with the reason %q, want %d times, %q", asked, why, (all+1)/2, content.TookTooLong)
			}
		})
	}
}
