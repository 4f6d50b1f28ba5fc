package test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

// resolved returns a name server's answer about the addresses of a name.
func resolved(t *testing.T, server, name string) string {
	t.Helper()
	q := new(miekg.Msg)
	q.SetQuestion(name, miekg.TypeA)
	r, err := miekg.Exchange(q, server)
	if err != nil {
		t.Fatal(err)
	}
	for _, rr := range r.Answer {
		if a, ok := rr.(*miekg.A); ok {
			return a.A.String()
		}
	}
	return miekg.RcodeToString[r.Rcode]
}

// TestZonesAreMadeOnThePages: zones are made as files and in Redis, without a restart. The
// first file adds its folder to the settings and leaves the rest as it was.
func TestZonesAreMadeOnThePages(t *testing.T) {
	redis := redistest.Start(t, "--notify-keyspace-events", "AK")
	h := newHouse(t, nil)
	before := fmt.Sprintf(`listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
dns:
  listen: 127.0.0.1:0
  forward: {upstreams: [192.0.2.53]}
  zones: {reread: 50ms}
  redis: {addresses: ["%s"]} # with places
policies: [{name: everyone}]
events: {sqlite: events.db}
`, redis.Addr)
	h.write("shuultuur.yaml", before)
	h.restart()
	create := func(status int, says string, form url.Values) {
		t.Helper()
		code, text := adminCall(t, h.g, "POST", "/zones", form)
		if code != status || !strings.Contains(text, says) {
			t.Errorf("POST /zones %v: status %d, %s", form, code, text)
		}
	}
	create(400, "an address", url.Values{"origin": {"school.example"}})
	create(400, "name of a zone", url.Values{"origin": {"../../etc"}, "address": {"192.0.2.1"}})
	create(400, "address=", url.Values{"origin": {"school.example"}, "address": {"192.0.2.256"}})
	if now, _ := os.ReadFile(h.file); string(now) != before {
		t.Errorf("refused zones changed the settings to\n%s", now)
	}
	create(200, `"saved":true`, url.Values{"origin": {"School.example"}, "address": {"192.0.2.1"}})
	create(409, "there is a zone of that name already", url.Values{"origin": {"school.example."}, "address": {"192.0.2.1"}, "in": {"redis"}})
	create(201, "saved", url.Values{"origin": {"2.0.192.in-addr.arpa"}, "server": {"ns.school.example"}})
	create(201, "saved", url.Values{"origin": {"lab.example"}, "address": {"192.0.2.2"}, "in": {"redis"}})
	if now, _ := os.ReadFile(h.file); !strings.Contains(string(now), "# with places") || strings.Count(string(now), "zone-files") != 1 {
		t.Errorf("after the zones were made, the settings are\n%s", now)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(h.file), "zone-files", "*")); len(files) != 2 {
		t.Errorf("the zone files are %q, want two", files)
	}
	server := h.g.DNSAddr()
	for name, want := range map[string]string{"ns.school.example.": "192.0.2.1", "ns.lab.example.": "192.0.2.2"} {
		waittest.Until(t, name, func() bool { return resolved(t, server, name) == want })
	}
	// Then both are edited.
	for _, origin := range []string{"school.example", "lab.example"} {
		var z struct{ Text, Tag string }
		code, text := adminCall(t, h.g, "GET", "/zones/"+origin, nil)
		if err := json.Unmarshal([]byte(text), &z); code != 200 || err != nil {
			t.Fatalf("showing a new zone: status %d, want 200: %s", code, text)
		}
		z.Text = strings.Replace(z.Text, "hostmaster 1 ", "hostmaster 2 ", 1)
		if origin == "lab.example" {
			z.Text += `www {"a":{"ttl":300,"records":[{"ip":"192.0.2.9"}]}}`
		} else {
			z.Text += "www A 192.0.2.9\n"
		}
		if code, text := adminCall(t, h.g, "POST", "/zones/"+origin, url.Values{"text": {z.Text}, "tag": {z.Tag}}); code != 200 {
			t.Fatalf("changing the text of a zone: status %d, want 200: %s", code, text)
		}
		waittest.Until(t, origin, func() bool { return resolved(t, server, "www."+origin+".") == "192.0.2.9" })
	}
}

// TestRecordsAreChangedOnThePages: in a file and in Redis, records are changed one at a time,
// shown with their effect, and undone. Whole zones are deleted and restored.
func TestRecordsAreChangedOnThePages(t *testing.T) {
	redis := redistest.Start(t, "--notify-keyspace-events", "AK")
	h := newHouse(t, nil)
	h.write("shuultuur.yaml", fmt.Sprintf(`listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
dns:
  listen: 127.0.0.1:0
  forward: {upstreams: [192.0.2.53]}
  zones: {reread: 50ms}
  redis: {addresses: ["%s"]}
policies: [{name: everyone}]
events: {sqlite: events.db}
`, redis.Addr))
	h.restart()
	server := ""
	for origin, in := range map[string]string{"school.example": "file", "lab.example": "redis"} {
		if code, text := adminCall(t, h.g, "POST", "/zones", url.Values{"origin": {origin}, "address": {"192.0.2.1"}, "in": {in}}); code > 201 {
			t.Fatalf("making a zone in %s: status %d, want 200 or 201: %s", in, code, text)
		}
		server = h.g.DNSAddr()
		waittest.Until(t, origin, func() bool { return resolved(t, server, "ns."+origin+".") == "192.0.2.1" })
	}
	type record struct{ ID, Name, Type, Data string }
	type shown struct {
		Tag  string
		List []record
	}
	for _, origin := range []string{"school.example", "lab.example"} {
		get := func() (z shown) {
			t.Helper()
			code, text := adminCall(t, h.g, "GET", "/zones/"+origin, nil)
			if err := json.Unmarshal([]byte(text), &z); code != 200 || err != nil {
				t.Fatalf("showing a zone: status %d, want 200: %s", code, text)
			}
			return z
		}
		change := func(status int, says string, form url.Values) string {
			t.Helper()
			if form.Get("tag") == "" {
				form.Set("tag", get().Tag)
			}
			code, text := adminCall(t, h.g, "POST", "/zones/"+origin+"/record", form)
			if code != status || !strings.Contains(text, says) {
				t.Errorf("changing records, %v: status %d, %s", form, code, text)
			}
			return text
		}
		answers := func(want string) {
			t.Helper()
			waittest.Until(t, "www is "+want, func() bool { return resolved(t, server, "www."+origin+".") == want })
		}
		add := func(more ...string) url.Values {
			f := url.Values{"what": {"add"}, "name": {"www"}, "type": {"A"}, "address": {"192.0.2.7"}}
			for i := 0; i < len(more); i += 2 {
				f.Set(more[i], more[i+1])
			}
			return f
		}
		change(412, "", add("tag", "old"))
		change(422, `"field":"address"`, add("address", "192.0.2.777"))
		change(422, `"field":"name"`, add("name", "www.elsewhere.example."))
		if text := change(200, `"saved":false`, add("dry_run", "true")); !strings.Contains(text, "192.0.2.7") {
			t.Errorf("the dry run of a change does not show 192.0.2.7: %s", text)
		}
		answers("NXDOMAIN")
		change(200, `"saved":true`, add())
		answers("192.0.2.7")
		of := func(name, typ string) string {
			t.Helper()
			for _, r := range get().List {
				if r.Name == name && r.Type == typ {
					return r.ID
				}
			}
			t.Fatalf("record %s %s is not in %v", name, typ, get().List)
			return ""
		}
		change(200, `"saved":true`, url.Values{"what": {"change"}, "record": {of("www", "A")}, "name": {"www"}, "type": {"A"}, "address": {"192.0.2.8"}})
		answers("192.0.2.8")
		change(200, `"saved":true`, add("type", "TXT", "text", `a "b" ж; c`))
		change(200, `"saved":true`, add("type", "CAA", "flags", "0", "property", "issue", "value", "ca.example"))
		change(200, `"saved":true`, url.Values{"what": {"delete"}, "record": {of("www", "A")}})
		answers("NOERROR")

		// The change is undone by its version. Then the zone is deleted and restored.
		var z struct {
			Tag     string
			History []struct{ ID, Reason string }
		}
		_, text := adminCall(t, h.g, "GET", "/zones/"+origin, nil)
		if err := json.Unmarshal([]byte(text), &z); err != nil || len(z.History) < 6 || z.History[0].Reason != "delete www."+origin+" A" {
			t.Fatalf("the history of a zone lacks versions, or the latest reason: %s", text)
		}
		if code, text := adminCall(t, h.g, "POST", "/zones/"+origin, url.Values{"version": {z.History[1].ID}, "tag": {z.Tag}}); code != 200 {
			t.Fatalf("returning to an older version: status %d, want 200: %s", code, text)
		}
		answers("192.0.2.8")
		if code, text := adminCall(t, h.g, "POST", "/zones/"+origin+"/delete", url.Values{"tag": {"old"}}); code != 412 {
			t.Errorf("deleting a zone with an old tag: status %d, want 412: %s", code, text)
		}
		if code, text := adminCall(t, h.g, "POST", "/zones/"+origin+"/delete", url.Values{"tag": {get().Tag}}); code != 200 {
			t.Fatalf("deleting a zone: status %d, want 200: %s", code, text)
		}
		waittest.Until(t, "the zone is gone", func() bool { code, _ := adminCall(t, h.g, "GET", "/zones/"+origin, nil); return code == 404 })
		if code, text := adminCall(t, h.g, "POST", "/zones/"+origin+"/restore", nil); code != 201 {
			t.Fatalf("restoring a zone: status %d, want 201: %s", code, text)
		}
		answers("192.0.2.8")
		if code, _ := adminCall(t, h.g, "POST", "/zones/"+origin+"/restore", nil); code != 404 {
			t.Error("restoring a zone that is served does not fail with 404")
		}
	}
}
