//go:build !small

package admin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"shuultuur/admin/account"
)

type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Summary     string
		Role        string `json:"x-role"`
		Parameters  []struct {
			Name, In string
			Required bool
		}
		Responses map[string]struct{ Description string }
		Security  []map[string][]string
	}
}

// TestEveryPathOfTheDescriptionIsAnswered calls each path, and looks for each route in the
// description.
func TestEveryPathOfTheDescriptionIsAnswered(t *testing.T) {
	h := newHouse(t)
	w := h.ask(account.Viewer, "GET", "/openapi.json", "")
	var d document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.OpenAPI != "3.1.0" {
		t.Fatalf("the description is of OpenAPI %q, %v, want 3.1.0", d.OpenAPI, err)
	}
	ids, called := map[string]bool{}, 0
	for path, methods := range d.Paths {
		for method, o := range methods {
			called++
			if ids[o.OperationID] || o.OperationID == "" {
				t.Errorf("%s %s: the identifier %q is empty or used twice", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
			if len(o.Responses) < 2 || o.Summary == "" || o.Role == "" || o.Security == nil {
				t.Errorf("%s %s is described as %+v", method, path, o)
			}
			for i, m := range inPath.FindAllStringSubmatch(path, -1) {
				if len(o.Parameters) <= i || o.Parameters[i].Name != m[1] || o.Parameters[i].In != "path" || !o.Parameters[i].Required {
					t.Errorf("%s %s: the parameter %q is not described", method, path, m[1])
				}
			}
			// The request is anonymous: existing routes answer, and missing ones return "not
			// found".
			as := account.None
			w := h.ask(as, strings.ToUpper(method), inPath.ReplaceAllString(path, "1"), "")
			there := w.Code != 404 && w.Code != 405 || o.Role == anyone.String() && strings.Contains(path, "{")
			if want := o.Role != anyone.String() && o.Role != monitor.String(); !there || want != (w.Code == 401) && o.Role != anyone.String() {
				t.Errorf("%s %s for %s: status %d, %s", method, path, o.Role, w.Code, w.Body)
			}
		}
	}
	if called < 60 {
		t.Errorf("the description has only %d operations", called)
	}
	words, routes := operations(), h.parts.routes()
	for _, r := range routes {
		o, ok := d.Paths[r.pathOf()][strings.ToLower(r.method)]
		if !ok || o.Role != r.role.String() {
			t.Errorf("the description lacks %s %s for %v, or has it for %q", r.method, r.path, r.role, o.Role)
		}
		if words[r.method+" "+r.path].does == "" {
			t.Errorf("%s %s has no row in operations: add one that says what it does", r.method, r.path)
		}
	}
	there := map[string]bool{}
	for _, r := range append(routes, voteRoutes(&Parts{Votes: &Votes{}})...) {
		there[r.method+" "+r.path] = true
	}
	for key := range words {
		if !there[key] {
			t.Errorf("operations describes %s, which is not a route", key)
		}
	}
	if w := h.ask(account.Owner, "GET", "/api", ""); w.Code != 200 || strings.Count(w.Body.String(), "<form") < 20 {
		t.Errorf("/api: status %d, or fewer than 20 forms: %s", w.Code, w.Body)
	}
}

func TestRoutesThatSayTheirEffectAreDescribed(t *testing.T) {
	for path, o := range operations() {
		takes := slices.ContainsFunc(append(slices.Clone(o.form), o.query...), func(f field) bool { return f.name == "dry_run" })
		method, at, _ := strings.Cut(path, " ")
		if tells, _ := (route{method: method, path: at}).hasDryRun(); takes != tells {
			t.Errorf("%s: the description has dry_run: %v; the route shows its effect: %v", path, takes, tells)
		}
	}
}
