package why_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/filter"
)

func TestWhyAnswersInTheWordsOfTheForm(t *testing.T) {
	p := admintest.Nobody()
	p.Explain = func(_ context.Context, q why.Question) (*why.Explanation, error) {
		if q.As == "nobody" {
			return nil, &web.BadChange{Err: errors.New(`there is no policy "nobody"`)}
		}
		return &why.Explanation{URL: q.URL + " " + q.Client.String() + " " + strings.Join(q.Groups, "+"), Action: "block", Findings: []filter.Finding{{Check: "category", Evidence: "<own>:1; b:2"}}}, nil
	}
	h := admin.New(p)
	for path, want := range map[string]string{
		"/why": "200 <!DOCTYPE",
		"/why?url=bet.example&client=10.0.0.1&groups=a,+b": "bet.example 10.0.0.1 a&#43;b",
		"/why?url=bet.example":                             "<code>&lt;own&gt;:1</code>",
		"/why?url=bet.example&client=me":                   "400 ",
		"/why?url=bet.example&as=nobody":                   "there is no policy &#34;nobody&#34;",
	} {
		w := admintest.Ask(h, "GET", path, "text/html", "")
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in %s", path, want, got)
		}
	}
	if w := admintest.Ask(h, "GET", "/why", "", ""); w.Code != 400 {
		t.Errorf("/why without a URL: status %d, want 400", w.Code)
	}
}

func TestAQuestionThatCannotBeAskedIsRefused(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Viewer, Method: "GET", Path: "/why", Form: "", Page: true, Status: 200, Says: "<form"},
		{As: account.Viewer, Method: "GET", Path: "/why", Form: "", Page: false, Status: 400, Says: "url= is missing"},
		{As: account.Viewer, Method: "GET", Path: "/why?url=a.example&client=everybody", Form: "", Page: true, Status: 400, Says: "everybody"},
		{As: account.Viewer, Method: "GET", Path: "/why?url=a.example&groups=7a,7b", Form: "", Page: false, Status: 200, Says: `"pass"`},
	})
	for _, q := range []why.Question{{URL: "gopher://a.example/"}, {URL: "http://"}, {URL: "::"}} {
		if _, err := why.RequestOf(&q); err == nil {
			t.Errorf("%q is a request", q.URL)
		}
	}
	for url, want := range map[string]string{"https://a.example/x": "a.example", "a.example": "a.example"} {
		if tr, err := why.RequestOf(&why.Question{URL: url}); err != nil || tr.Host != want {
			t.Errorf("%s: %v, want the host %s", url, err, want)
		}
	}
}
