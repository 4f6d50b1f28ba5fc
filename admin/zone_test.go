//go:build !small

package admin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestZonesAreShownAndTheirFilesChanged(t *testing.T) {
	p := nobody()
	p.Zones = zoneOf(t, "example.test.", firstZone)
	h := New(p)
	if w := ask(h, "GET", "/zones", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `href="/zones/example.test.?view="`) || !strings.Contains(w.Body.String(), "served") {
		t.Errorf("the list: %d %s", w.Code, w.Body)
	}
	get := func() (d zoneData) {
		t.Helper()
		w := ask(h, "GET", "/zones/Example.test", "application/json", "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); w.Code != 200 || err != nil {
			t.Fatalf("the zone: %d %v %s", w.Code, err, w.Body)
		}
		return d
	}
	d := get()
	if d.Serial != 1 || d.From != "file" || d.Signed || d.Text != firstZone || len(d.Lines) != 4 || !strings.HasPrefix(d.Lines[0], "example.test.\t300\tIN\tSOA") {
		t.Errorf("the zone is %+v", d)
	}
	if w := ask(h, "GET", "/zones/other.test", "application/json", ""); w.Code != 404 {
		t.Errorf("a zone that is not there: %d", w.Code)
	}
	raised := strings.Replace(firstZone, " 1 3600", " 2 3600", 1) + "new A 192.0.2.3\n"
	for _, c := range []struct {
		name, text, tag string
		status          int
		says            string
	}{
		{"a mistake", firstZone + "bad A 192.0.2.300\n", d.Tag, 400, "a.zone:6"},
		{"another origin", strings.ReplaceAll(firstZone, "@", "elsewhere.test."), d.Tag, 400, ""},
		{"the same serial", firstZone + "new A 192.0.2.3\n", d.Tag, 400, "raise it"},
		{"changed meanwhile", raised, "old", 412, ""},
		{"better", raised, d.Tag, 200, ""},
	} {
		form := url.Values{"text": {strings.ReplaceAll(c.text, "\n", "\r\n")}, "tag": {c.tag}}.Encode()
		if w := ask(h, "POST", "/zones/example.test.", "application/json", form); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		want := firstZone
		if c.status == http.StatusOK {
			want = raised
		}
		if got := get().Text; got != want {
			t.Errorf("%s: the file is %q", c.name, got)
		}
	}
	form := url.Values{"text": {"nonsense <b>"}, "tag": {get().Tag}}.Encode()
	if w := ask(h, "POST", "/zones/example.test.", "text/html", form); w.Code != 400 || !strings.Contains(w.Body.String(), "nonsense &lt;b&gt;</textarea>") {
		t.Errorf("what was written is lost: %d %s", w.Code, w.Body)
	}
}
