package markup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
)

// TestTextsThatSheetsAddAreBounded: the work for texts added by style sheets is limited, and
// reaching the limit is reported.
func TestTextsThatSheetsAddAreBounded(t *testing.T) {
	var sheet strings.Builder
	for i := range 60 {
		fmt.Fprintf(&sheet, "b:nth-child(%d)::before{content:var(--v) 'x%dx' attr(a) counter(c,s)}p{--v:'v%d'var(--w)}p{--w:'w%d'var(--v)}", i, i, i, i)
	}
	page := "<style>@counter-style s{symbols:a b c d e f g}" + sheet.String() + "</style>" + strings.Repeat("<b a=q>y</b>", 100_000)
	var b content.Body
	b.Reset(content.Describe("text/html", ""), content.Limits{})
	defer b.Release()
	b.Append([]byte(page))
	b.Finish()
	from := time.Now()
	text, err := b.Text()
	if t.Logf("got %d bytes of text in %v", len(text), time.Since(from)); err != nil || b.Unread() != content.Intricate || len(text) > 16*len(page) {
		t.Errorf("got %d bytes of text from a page of %d bytes, unread %q, error %v", len(text), len(page), b.Unread(), err)
	}
}
