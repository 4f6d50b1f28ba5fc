package policy

import (
	"testing"

	"shuultuur/filter"
)

func TestBlurAndPlaceholderFitPicturesOnlyOnceTheyAreKnown(t *testing.T) {
	named := map[filter.Stage][]string{filter.Name: {"adult"}}
	picture, text := []string{"Content-Type", "image/png"}, []string{"Content-Type", "text/html"}
	for name, c := range map[string]struct {
		action   string
		response []string
		want     filter.Action
		show     filter.Show
		stage    filter.Stage
	}{
		"blur a picture":             {"blur", picture, filter.Block, filter.Blurred, filter.ResponseBody},
		"blur no page":               {"blur", text, filter.Pass, filter.Nothing, filter.Response},
		"placeholder of a picture":   {"placeholder", picture, filter.Warn, filter.Placeholder, filter.ResponseBody},
		"placeholder for no page":    {"placeholder", text, filter.Pass, filter.Nothing, filter.Response},
		"block, which needs no body": {"block", picture, filter.Block, filter.Nothing, filter.Name},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, []Rule{{Name: "r", Action: c.action, Category: cats("adult")}}, list(named))
			tr, s := page{response: c.response}.judge(t, e)
			if v := tr.Verdict; v.Action != c.want || v.Show != c.show || s != c.stage {
				t.Errorf("got %v, show %v at %v; want %v, %v at %v", v.Action, v.Show, s, c.want, c.show, c.stage)
			}
		})
	}
}

func TestALaterBlockDoesNotWinOverABlurThatIsOpen(t *testing.T) {
	e := newEngine(t, []Rule{
		{Name: "blur", Action: "blur", Category: cats("adult")},
		{Name: "block", Action: "block", Category: cats("adult")},
	}, list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	tr, _ := page{response: []string{"Content-Type", "image/png"}}.judge(t, e)
	if tr.Verdict.Reason.Rule != "blur" {
		t.Errorf("picture: got %+v, want rule blur", tr.Verdict)
	}
	tr, s := page{}.judge(t, e)
	if tr.Verdict.Reason.Rule != "block" || s != filter.Response {
		t.Errorf("page: got %+v at %v, want rule block at the response", tr.Verdict, s)
	}
}

func TestABlurIsNotLearnedAsABlock(t *testing.T) {
	m := notebook{}
	p := phrases(99)
	p.html = false
	e := learning(t, m, p, Rule{Name: "words", Action: "blur", Category: cats("phrase"), Over: over(50)})
	for range 2 {
		tr, s := page{response: []string{"Content-Type", "image/png", "ETag", "1"}}.judge(t, e)
		if tr.Verdict.Show != filter.Blurred || s != filter.ResponseBody {
			t.Errorf("picture: got %+v at %v, want it blurred at the response's body", tr.Verdict, s)
		}
	}
	if len(m) != 0 {
		t.Errorf("%d verdicts on pictures were learned, want none", len(m))
	}
}

func TestABlurFitsAPictureOfAnyTypeThatABrowserWants(t *testing.T) {
	e := newEngine(t, []Rule{{Name: "blur", Action: "blur", Category: cats("adult")}}, list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	for dest, want := range map[string]bool{"image": true, "document": false} {
		tr, _ := page{response: []string{"Content-Type", "text/plain"}}.judge(t, e)
		tr.Request.Add("Sec-Fetch-Dest", dest)
		if got := mayBePicture(tr); got != want {
			t.Errorf("destination %s: mayBePicture = %v", dest, got)
		}
	}
}
