package web_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestURLsAreHiddenBelowARole(t *testing.T) {
	h := admintest.NewHouse(t)
	for as, want := range map[account.Role]bool{account.Viewer: false, account.Lead: true, account.Owner: true} {
		if got := strings.Contains(h.Ask(as, "GET", "/events", "").Body.String(), "secret"); got != want {
			t.Errorf("%v sees the whole URL: %v, want the opposite", as, got)
		}
		if got := h.Ask(as, "GET", "/events?filter=secret", "").Body.Len() > 0; got != want {
			t.Errorf("%v finds a row by its URL: %v, want the opposite", as, got)
		}
	}
	if got := h.Ask(account.Viewer, "GET", "/events", "").Body.String(); !strings.Contains(got, "https://a.example/") {
		t.Errorf("a viewer does not see the host: %s", got)
	}
}

func TestEveryLookIsInTheAuditLog(t *testing.T) {
	h := admintest.NewHouse(t)
	for query, want := range map[string]string{"filter=user:anna": "user:anna", "filter=client:10.0.0.2": "client:10.0.0.2", "filter=-user:ben": "user:ben", "filter=id:anna-1": "id:anna-1", "filter=host:a.example": ""} {
		before := admintest.Entries(t, h)
		if w := h.Ask(account.Lead, "GET", "/events?"+query, ""); w.Code != 200 {
			t.Fatalf("searching for %q: status %d, want 200: %s", query, w.Code, w.Body)
		}
		if got := admintest.Entries(t, h) - before; (got == 1) != (want != "") {
			t.Errorf("GET /events?%s added %d entries to the audit log", query, got)
		}
		if all, err := h.Parts.Audit.Entries(0, 1); want != "" && (err != nil || all[0].Details != want || all[0].By != "the-safeguarding-lead" || all[0].Action != "look") {
			t.Errorf("GET /events?%s: the audit log has %+v, %v", query, all, err)
		}
	}
	if w := h.Ask(account.Owner, "POST", "/accounts/password", "name=the-viewer&password=correct+horse+battery"); w.Code != 200 {
		t.Fatalf("setting a viewer's password: status %d, want 200: %s", w.Code, w.Body)
	}
	all, err := h.Parts.Audit.Entries(0, 1)
	if err != nil || all[0].Action != "POST /accounts/password" || !strings.Contains(all[0].Details, "the-viewer") || strings.Contains(all[0].Details, "horse") || all[0].Status != 0 {
		t.Errorf("the entry is %+v, %v", all, err)
	}
	// If the audit log cannot be written, looks and changes are refused.
	folder := account.Folder(h.Dir)
	if err := errors.Join(os.Remove(filepath.Join(folder, "audit.jsonl")), os.Mkdir(filepath.Join(folder, "audit.jsonl"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if w := h.Ask(account.Lead, "GET", "/events?filter=user:anna", ""); w.Code == 200 {
		t.Error("a look that the audit log cannot record is shown")
	}
	h.Paused = nil
	if w := h.Ask(account.Owner, "POST", "/pause", "for=1m"); w.Code != 503 || w.Header().Get("Retry-After") == "" || h.Paused != nil {
		t.Errorf("a change that the audit log cannot record: status %d, want 503; paused %q", w.Code, h.Paused)
	}
}

func TestTwoPeopleAreNeeded(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Rules.TwoPeople = true
	see := func(as account.Role, query string) *httptest.ResponseRecorder {
		return h.Ask(as, "GET", "/events?"+query, "")
	}
	if got := see(account.Lead, "").Body.String(); strings.Contains(got, "anna\"") && strings.Contains(got, `"user"`) || strings.Contains(got, "10.0.0.1") || !strings.Contains(got, "a.example") {
		t.Errorf("without a second person, rows name people: %s", got)
	}
	if w := see(account.Lead, "filter=user:anna"); w.Code != 403 || !strings.Contains(w.Body.String(), "two people") {
		t.Errorf("a look without a second person: status %d, want 403: %s", w.Code, w.Body)
	}
	if got := h.Ask(account.Owner, "GET", "/statistics", "").Body.String(); strings.Contains(got, "10.0.0.1") {
		t.Errorf("without a second person, counts name clients: %s", got)
	}
	var all []struct{ ID string }
	w := h.Ask(account.Lead, "POST", "/looks", "whom=anna&reason=a+worry")
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) != 1 {
		t.Fatalf("asking to look into a person's data: status %d, want a list of one request: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Lead, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 400 {
		t.Errorf("agreeing to one's own look: status %d, want 400: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Helper, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 403 {
		t.Errorf("a helper agrees to a look: status %d, want 403: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Owner, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 200 {
		t.Fatalf("a second person agrees to a look: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := see(account.Lead, "filter=user:anna"); w.Code != 200 || !strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a look after a second person agreed: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := see(account.Lead, "filter=user:ben"); w.Code != 403 {
		t.Errorf("a look at another person: status %d, want 403: %s", w.Code, w.Body)
	}
	if w := see(account.Owner, "filter=user:anna"); w.Code != 403 {
		t.Errorf("another user's look at the person: status %d, want 403: %s", w.Code, w.Body)
	}
}
