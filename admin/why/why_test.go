package why

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
)

// endless judges a body until it may no longer.
type endless struct{}

func (endless) Wants(*filter.Transaction, filter.Stage) bool { return true }

func (endless) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	if s == filter.ResponseBody {
		<-ctx.Done()
		_, _ = t.Body.Text()
		t.Findings = append(t.Findings, filter.Finding{Check: filter.Content, Category: filter.Unread, Evidence: t.Body.Unread().String()})
	}
}

func TestAnExplanationHasTheLimitOfAJudgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Question{URL: "http://site.example/", Type: "text/html", Page: []byte(strings.Repeat("<p>a page", 10_000))}
		tr, err := RequestOf(q)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		x := Judge(t.Context(), endless{}, tr, q)
		if took := time.Since(start); took != filter.JudgeTime(int64(len(q.Page))) {
			t.Errorf("the explanation took %v, want %v", took, filter.JudgeTime(int64(len(q.Page))))
		}
		if len(x.Findings) != 1 || x.Findings[0].Evidence != content.TookTooLong.String() {
			t.Errorf("findings are %v, want the body to be unread because it took too long", x.Findings)
		}
	})
}
