package settings_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
)

func TestSettingsAreSavedAfterTheirEffectWasSeen(t *testing.T) {
	s := &admintest.Paper{Text: "a: 1\nb: 2\n"}
	p := admintest.Nobody()
	p.Settings = s.Parts(t)
	p.Judge = admintest.PaperEffect
	h := admin.New(p)
	send := func(what, text, tag, checked string) *httptest.ResponseRecorder {
		return admintest.Ask(h, "POST", "/settings", "text/html", url.Values{"what": {what}, "text": {text}, "tag": {tag}, "checked": {checked}, "reason": {"because"}}.Encode())
	}
	tag := web.Tag([]byte(s.Text))
	if w := admintest.Ask(h, "GET", "/settings", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "a: 1\nb: 2\n</textarea>") || !strings.Contains(w.Body.String(), "first &lt;try&gt;") {
		t.Fatalf("the editor: status %d, %s", w.Code, w.Body)
	}
	if w := send("check", "a: 1\nb: mistake\n", tag, ""); w.Code != 422 || !strings.Contains(w.Body.String(), `data-line="2"`) || !strings.Contains(w.Body.String(), "is a &lt;mistake&gt;") || strings.Contains(w.Body.String(), `value="save"`) {
		t.Errorf("checking a text with a mistake: status %d, %s", w.Code, w.Body)
	}
	const next = "a: 1\r\nb: 3 # why\r\n"
	w := send("save", next, tag, "")
	if body := w.Body.String(); s.Text != "a: 1\nb: 2\n" || !strings.Contains(body, "312 of 48\u202f201 requests") || !strings.Contains(body, "http://&lt;b&gt;.example/") || !strings.Contains(body, `<div class="del">- b: 2</div><div class="add">+ b: 3 # why</div>`) {
		t.Fatalf("a text was saved before its effect was shown, or the page lacks the effect: %q\n%s", s.Text, body)
	}
	checked := web.Tag([]byte("a: 1\nb: 3 # why\n"))
	if !strings.Contains(w.Body.String(), `name="checked" value="`+checked+`"`) {
		t.Error("the page lacks the mark of the text whose effect was seen")
	}
	if w := send("save", next, "stale", checked); w.Code != 412 || s.Text != "a: 1\nb: 2\n" {
		t.Errorf("saving over a change on disk: status %d, want 412; the text is %q", w.Code, s.Text)
	}
	if w := send("save", next, tag, checked); w.Code != 200 || s.Text != "a: 1\nb: 3 # why\n" || s.Reason != "because" || !strings.Contains(w.Body.String(), "that needs a restart") {
		t.Errorf("saving: status %d, the text is %q, the reason %q", w.Code, s.Text, s.Reason)
	}
	if w := admintest.Ask(h, "GET", "/settings/versions/20260101T000000.000000Z", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "+ old: 1") {
		t.Errorf("an old version: status %d, %s", w.Code, w.Body)
	}
	if w := admintest.Ask(h, "GET", "/settings/versions/..%2f..%2fetc", "text/html", ""); w.Code != 404 {
		t.Errorf("an invalid version: status %d, want 404", w.Code)
	}
	if w := admintest.Ask(h, "GET", "/policies", "text/html", ""); !strings.Contains(w.Body.String(), "category: &lt;games&gt;") {
		t.Errorf("the page of policies is %s", w.Body)
	}
}

func TestSettingsAreChangedByPrograms(t *testing.T) {
	s := &admintest.Paper{Text: "a: 1\n"}
	p := admintest.Nobody()
	p.Settings = s.Parts(t)
	p.Judge = admintest.PaperEffect
	h := admin.New(p)
	w := admintest.Ask(h, "GET", "/settings", "", "")
	tag := w.Header().Get("ETag")
	if w.Body.String() != s.Text || tag == "" {
		t.Fatalf("reading the settings: ETag %s, text %s", tag, w.Body)
	}
	match := func(tag string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("If-Match", tag) } }
	for _, c := range []struct {
		path, text, tag string
		status          int
		saved           bool
	}{
		{"/settings", "a: 2\n", "", 428, false},
		{"/settings", "a: 2\n", `"other"`, 412, false},
		{"/settings?dry_run=true", "a: 2\n", "", 200, false},
		{"/settings?dry_run=true", "mistake: 2\n", "", 422, false},
		{"/settings", "mistake: 2\n", tag, 422, false},
		{"/settings?reason=test", "a: 2\n", tag, 200, true},
		{"/settings", "a: 3\n", tag, 412, false},
	} {
		was := s.Text
		w := admintest.Ask(h, "PUT", c.path, "application/json", c.text, match(c.tag))
		if saved := s.Text != was; w.Code != c.status || saved != c.saved {
			t.Errorf("PUT %s %q if the ETag is %s: status %d, saved %v; want %d, %v: %s", c.path, c.text, c.tag, w.Code, saved, c.status, c.saved, w.Body)
		}
		var out struct{ Effect *web.Effect }
		if c.status == 200 && (json.Unmarshal(w.Body.Bytes(), &out) != nil || out.Effect == nil || out.Effect.Changed != 312) {
			t.Errorf("the answer to PUT %s lacks the effect: %s", c.path, w.Body)
		}
	}
}
