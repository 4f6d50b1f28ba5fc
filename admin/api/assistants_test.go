//go:build !small

package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

// assistant sends a message as a user and returns the answer.
func assistant(h *admintest.House, t *testing.T, as account.Role, method, params string, change ...func(*http.Request)) (status int, result map[string]any, code float64) {
	t.Helper()
	w := h.Ask(as, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc": "2.0", "id": "a1", "method": %q, "params": %s}`, method, params), change...)
	var m struct {
		JSONRPC, ID string
		Result      map[string]any
		Error       struct{ Code float64 }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); w.Code == 200 && (err != nil || m.JSONRPC != "2.0" || m.ID != "a1") {
		t.Fatalf("%s: parsing the answer: %v in %s", method, err, w.Body)
	}
	return w.Code, m.Result, m.Error.Code
}

// called makes an assistant call a tool.
func called(h *admintest.House, t *testing.T, as account.Role, tool, args string, change ...func(*http.Request)) (text string, bad bool) {
	t.Helper()
	status, result, code := assistant(h, t, as, "tools/call", fmt.Sprintf(`{"name": %q, "arguments": %s}`, tool, args), change...)
	if status != 200 || code != 0 {
		t.Fatalf("calling %s: status %d, error %v", tool, status, code)
	}
	part := result["content"].([]any)[0].(map[string]any)
	return part["text"].(string), result["isError"].(bool)
}

func TestAssistantsHaveTheRightsOfTheirToken(t *testing.T) {
	h := admintest.NewHouse(t)
	for asked, want := range map[string]string{"2025-06-18": "2025-06-18", "2024-11-05": "2024-11-05", "2099-01-01": "2025-06-18"} {
		_, hello, _ := assistant(h, t, account.Viewer, "initialize", `{"protocolVersion": "`+asked+`", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}`)
		if hello["protocolVersion"] != want || hello["capabilities"].(map[string]any)["tools"] == nil || hello["serverInfo"].(map[string]any)["name"] != "shuultuur" {
			t.Errorf("initialize with the revision %s: %v", asked, hello)
		}
	}
	_, list, _ := assistant(h, t, account.Viewer, "tools/list", `{}`)
	names := []string{}
	for _, x := range list["tools"].([]any) {
		d := x.(map[string]any)
		names = append(names, d["name"].(string))
		if d["description"] == "" || d["inputSchema"].(map[string]any)["type"] != "object" || d["annotations"].(map[string]any)["readOnlyHint"] != true {
			t.Errorf("a tool is described as %v", d)
		}
	}
	if got := strings.Join(names, " "); got != "why events statistics settings what_if propose_ruling propose_pause" {
		t.Errorf("the tools are %s", got)
	}
	before := admintest.Entries(t, h)
	for _, tt := range []struct {
		as         account.Role
		tool, args string
		want, not  string
		bad        bool
	}{
		{account.Viewer, "why", `{"url": "http://a.example/"}`, `"action": "pass"`, "", false},
		{account.Viewer, "why", `{}`, `"url" is missing`, "", true},
		{account.Viewer, "why", `{"url": "http://a.example/", "color": "red"}`, "no argument", "", true},
		{account.Viewer, "events", `{}`, "https://a.example/", "secret", false},
		{account.Lead, "events", `{"most": 2}`, "secret", "There is more", false},
		{account.Lead, "events", `{"most": "1"}`, "There is more", "b.example", false},
		{account.Lead, "events", `{"most": "x"}`, "is a number", "", true},
		{account.Helper, "events", `{}`, "a.example", "b.example", false}, // a device of their own group
		{account.Viewer, "settings", `{}`, "has the role viewer", "a: 1", true},
		{account.Operator, "settings", `{}`, "a: 1", "", false},
		{account.Viewer, "what_if", `{"text": "a: 2\n"}`, "has the role viewer", "", true},
		{account.Operator, "what_if", `{"text": "a: 2\n"}`, `"saved": false`, "", false},
		{account.Viewer, "propose_ruling", `{"site": "a.example", "who": "7a"}`, "http://127.0.0.1:8081/rulings?site=a.example&who=7a", "", false},
		{account.Viewer, "propose_pause", `{}`, "http://127.0.0.1:8081/pause", "", false},
	} {
		text, bad := called(h, t, tt.as, tt.tool, tt.args)
		if compact := strings.ReplaceAll(text, `":"`, `": "`); bad != tt.bad || !strings.Contains(strings.ReplaceAll(compact, `":false`, `": false`), tt.want) || tt.not != "" && strings.Contains(text, tt.not) {
			t.Errorf("%s %s as %v: error %v, %s", tt.tool, tt.args, tt.as, bad, text)
		}
	}
	if len(h.Paused)+len(h.Given) > 0 {
		t.Errorf("an assistant changed something: %v, %v", h.Paused, h.Given)
	}
	if text, _ := h.Parts.Settings.Read(); string(text) != "a: 1\n" {
		t.Errorf("an assistant changed the settings: %s", text)
	}
	if text, bad := called(h, t, account.Lead, "events", `{"filter": "user:anna"}`); bad || !strings.Contains(text, "anna") {
		t.Errorf("an assistant searches for anna's events: got %s", text)
	}
	if all, err := h.Parts.Audit.Entries(0, 1); err != nil || all[0].Action != "look" || all[0].By != "the-safeguarding-lead" || admintest.Entries(t, h) == before {
		t.Errorf("the audit log records an assistant's look as %+v, %v", all, err)
	}
}

// TestATokenForReadingServesAssistants, and no token permits more through them than without.
func TestATokenForReadingServesAssistants(t *testing.T) {
	h := admintest.NewHouse(t)
	token := func(scope ...string) func(*http.Request) {
		secret, _, err := h.Parts.Accounts.NewToken("the-owner", "assistant", scope, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
	}
	for _, tt := range []struct {
		scope, tool, args, want string
		bad                     bool
	}{
		{"read", "events", `{}`, "anna", false},
		{"read", "what_if", `{"text": "a: 2\n"}`, "saved", false},
		{"GET /mcp", "events", `{}`, "the scope of this token", true},
	} {
		if text, bad := called(h, t, account.None, tt.tool, tt.args, token(tt.scope)); bad != tt.bad || !strings.Contains(text, tt.want) {
			t.Errorf("%s with the scope %s: error %v, %s", tt.tool, tt.scope, bad, text)
		}
	}
	if status, _, _ := assistant(h, t, account.None, "ping", `{}`, token("GET /events")); status != 403 {
		t.Errorf("ping with a token for something else: status %d, want 403", status)
	}
	for query, want := range map[string]int{"?dry_run=true": 200, "": 403, "?dry_run=false": 403} {
		if w := h.Ask(account.None, "PUT", "/settings"+query, "a: 2\n", token("read")); w.Code != want {
			t.Errorf("PUT /settings%s with a token for reading: status %d, %s", query, w.Code, w.Body)
		}
	}
}

func TestMessagesThatAreNone(t *testing.T) {
	h := admintest.NewHouse(t)
	for body, want := range map[string]int{
		`{"jsonrpc": "2.0", "method": "notifications/initialized"}`: 202,
		`{"jsonrpc": "2.0", "id": 1, "method": "ping"}`:             200,
		`{"jsonrpc": "1.0", "id": 1, "method": "ping"}`:             400,
		`[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]`:           400,
		`{`: 400, ``: 400, `null`: 400, `7`: 400,
		strings.Repeat(" ", 8<<20+1): 413,
	} {
		if w := h.Ask(account.Viewer, "POST", "/mcp", body); w.Code != want {
			t.Errorf("the message %.60q: status %d, %s", body, w.Code, w.Body)
		}
	}
	for method, want := range map[string]float64{"tools/fly": -32601, "tools/call": -32602, "initialize": -32602} {
		if _, _, code := assistant(h, t, account.Viewer, method, `[]`); code != want {
			t.Errorf("%s: %v, want %v", method, code, want)
		}
	}
	if _, _, code := assistant(h, t, account.Viewer, "tools/call", `{"name": "rm"}`); code != -32602 {
		t.Errorf("calling an unknown tool: error %v, want -32602", code)
	}
	if status, _, _ := assistant(h, t, account.Viewer, "ping", `{}`, func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "1999-01-01") }); status != 400 {
		t.Errorf("an unknown revision: status %d, want 400", status)
	}
	if w := h.Ask(account.Viewer, "GET", "/mcp", ""); w.Code != 405 {
		t.Errorf("GET /mcp: status %d, want 405", w.Code)
	}
}
