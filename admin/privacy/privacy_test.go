package privacy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/privacy"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/sqlite"
)

// TestErasedRecordsAreInNoFile searches the bytes of all files in the data folder.
func TestErasedRecordsAreInNoFile(t *testing.T) {
	h := admintest.NewHouse(t)
	rows := []event.Row(h.Parts.Events.Reader.(admintest.Memory))
	db, err := sqlite.Open(filepath.Join(h.Dir, "events.db"), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lines, err := jsonl.Open(filepath.Join(h.Dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	for i := range rows {
		rows[i].ID = []string{"one", "two"}[i]
	}
	if err := db.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := lines.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	h.Parts.Events = &web.Record{Reader: db}
	h.Parts.Holders = func() []privacy.Holder {
		return []privacy.Holder{{"events in sqlite", db.Erase}, {"events in jsonl", lines.Erase}, {"elsewhere", func(context.Context, event.Person, bool) (int64, error) { return 0, nil }}}
	}
	h.Site = admin.New(h.Parts)

	out := h.Ask(account.Owner, "GET", "/privacy/export?user=anna&client=10.0.0.1", "")
	if got := out.Body.String(); out.Code != 200 || strings.Count(got, "secret") < 1 || strings.Contains(got, "ben") || !strings.Contains(got, `"look"`) || strings.Count(got, `"id":"one"`) != 1 {
		t.Errorf("the export: status %d, %s", out.Code, got)
	}
	if w := h.Ask(account.Owner, "POST", "/privacy/erase", "user=anna&client=10.0.0.1&dry_run=true"); w.Code != 200 || strings.Count(w.Body.String(), `"rows":1,`)+strings.Count(w.Body.String(), `"rows":1}`) < 3 {
		t.Errorf("counting before an erasure: status %d, %s", w.Code, w.Body)
	}
	for _, bad := range []string{"", "user=", "client=everybody"} {
		if w := h.Ask(account.Owner, "POST", "/privacy/erase", bad); w.Code != 400 {
			t.Errorf("erasing with the invalid form %q: status %d, want 400: %s", bad, w.Code, w.Body)
		}
	}
	h.Ask(account.Lead, "GET", "/events?filter=user:anna", "")
	h.Ask(account.Owner, "POST", "/pause", "who=anna&for=5m")
	var counted, done []struct {
		Where string
		Rows  int64
	}
	w := h.Ask(account.Owner, "POST", "/privacy/erase", "user=anna&client=10.0.0.1&dry_run=true")
	if err := json.Unmarshal(w.Body.Bytes(), &counted); err != nil || w.Code != 200 {
		t.Errorf("counting before an erasure: status %d, %s", w.Code, w.Body)
	}
	w = h.Ask(account.Owner, "POST", "/privacy/erase", "user=anna&client=10.0.0.1")
	if err := json.Unmarshal(w.Body.Bytes(), &done); err != nil || w.Code != 200 || len(done) != 6 || done[0].Rows != 1 || done[1].Rows != 1 || done[3].Rows != 1 || done[5].Rows < 3 {
		t.Errorf("the erasure: status %d, %s", w.Code, w.Body)
	}
	if !slices.Equal(done, counted) {
		t.Errorf("erased %+v, but counted %+v before", done, counted)
	}
	err = filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, word := range []string{"anna", "10.0.0.1\"", "secret?q"} {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%s still contains %q", path, word)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if v, err := h.Parts.Audit.Verify(); err != nil || v.Broken != "" || v.Erased == 0 {
		t.Errorf("verifying the audit log after the erasure: %+v, %v", v, err)
	}
	if got := h.Ask(account.Lead, "GET", "/events?filter=user:ben", "").Body.String(); !strings.Contains(got, "b.example") {
		t.Errorf("after the erasure another person's events are %s", got)
	}
}

// If two people are needed, one of them alone can neither export nor erase a person's data. An
// agreement to look does not permit erasing, nor the other way round. It is valid for each name
// and address, for the user who asked, and for one erasure.
func TestTwoPeopleExportAndErase(t *testing.T) {
	h := admintest.NewHouse(t)
	erased := 0
	h.Parts.Holders = func() []privacy.Holder {
		return []privacy.Holder{{"a store", func(_ context.Context, _ event.Person, dry bool) (int64, error) {
			if !dry {
				erased++
			}
			return 1, nil
		}}}
	}
	h.Site = admin.New(h.Parts)
	h.Rules.TwoPeople = true
	agreed := func(form string) {
		t.Helper()
		var all []struct{ ID string }
		w := h.Ask(account.Owner, "POST", "/looks", form+"&reason=asked+for")
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) == 0 {
			t.Fatalf("asking to look into a person's data: status %d, want a list of requests: %s", w.Code, w.Body)
		}
		if w := h.Ask(account.Owner, "POST", "/looks/agree", "id="+all[len(all)-1].ID); w.Code != 400 {
			t.Errorf("agreeing to one's own request: status %d, want 400: %s", w.Code, w.Body)
		}
		if w := h.Ask(account.Lead, "POST", "/looks/agree", "id="+all[len(all)-1].ID); w.Code != 200 {
			t.Fatalf("agreeing to a request: status %d, want 200: %s", w.Code, w.Body)
		}
	}
	refused := func(when string, export, erase bool, form string) {
		t.Helper()
		if w := h.Ask(account.Owner, "GET", "/privacy/export?"+form, ""); (w.Code == 403) != export {
			t.Errorf("%s, exporting: status %d, %s", when, w.Code, w.Body)
		}
		if w := h.Ask(account.Owner, "POST", "/privacy/erase", form+"&dry_run=true"); (w.Code == 403) != erase {
			t.Errorf("%s, counting: status %d, %s", when, w.Code, w.Body)
		}
		if erase {
			if w := h.Ask(account.Owner, "POST", "/privacy/erase", form); w.Code != 403 || !strings.Contains(w.Body.String(), "two people") || erased > 0 {
				t.Errorf("%s, erasing: status %d, want 403: %s", when, w.Code, w.Body)
			}
		}
	}
	refused("alone", true, true, "user=anna")
	agreed("whom=anna")
	refused("a look is agreed", false, true, "user=anna")
	agreed("whom=anna&what=erase")
	refused("the device is not", true, true, "user=anna&client=10.0.0.1")
	refused("another person is not", true, true, "user=ben")
	refused("agreed", false, false, "user=anna")
	agreed("whom=10.0.0.1&what=erase")
	refused("no look at the device", true, false, "user=anna&client=10.0.0.1")
	if w := h.Ask(account.Owner, "POST", "/looks", "whom=anna&reason=x&what=burn"); w.Code != 400 {
		t.Errorf("a request with what=burn: status %d, want 400: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Owner, "POST", "/privacy/erase", "user=anna&client=10.0.0.1"); w.Code != 200 || erased != 1 {
		t.Errorf("erasing after both agreed: status %d, want 200: %s", w.Code, w.Body)
	}
	erased = 0
	refused("after it", true, true, "user=anna")
}
