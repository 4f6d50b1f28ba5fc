//go:build !small

package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/exception"
	"shuultuur/admin/web"
)

type document struct {
	OpenAPI string
	Servers []struct{ URL string }
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

var named = regexp.MustCompile(`\{([a-z]+)\}`)

// TestEveryPathOfTheDescriptionIsAnswered calls each path, and looks for each route in the
// description.
func TestEveryPathOfTheDescriptionIsAnswered(t *testing.T) {
	h := admintest.NewHouse(t)
	w := h.Ask(account.Viewer, "GET", "/openapi.json", "")
	var d document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.OpenAPI != "3.1.0" {
		t.Fatalf("the description is of OpenAPI %q, %v, want 3.1.0", d.OpenAPI, err)
	}
	ids, called := map[string]bool{}, 0
	if len(d.Servers) == 0 {
		t.Error("the description names no server")
	}
	for path, methods := range d.Paths {
		if path != "/" && strings.HasSuffix(path, "/") {
			t.Errorf("the path %s ends with a slash, which checkers of descriptions refuse", path)
		}
		for method, o := range methods {
			called++
			if ids[o.OperationID] || o.OperationID == "" {
				t.Errorf("%s %s: the identifier %q is empty or used twice", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
			if len(o.Responses) < 2 || o.Summary == "" || o.Role == "" || o.Security == nil {
				t.Errorf("%s %s is described as %+v", method, path, o)
			}
			for i, m := range named.FindAllStringSubmatch(path, -1) {
				if len(o.Parameters) <= i || o.Parameters[i].Name != m[1] || o.Parameters[i].In != "path" || !o.Parameters[i].Required {
					t.Errorf("%s %s: the parameter %q is not described", method, path, m[1])
				}
			}
			// The request is anonymous: existing routes answer, and missing ones return "not
			// found".
			as := account.None
			w := h.Ask(as, strings.ToUpper(method), named.ReplaceAllString(path, "1"), "")
			there := w.Code != 404 && w.Code != 405 || o.Role == web.Anyone.String() && strings.Contains(path, "{")
			if want := o.Role != web.Anyone.String() && o.Role != web.Monitor.String(); !there || want != (w.Code == 401) && o.Role != web.Anyone.String() {
				t.Errorf("%s %s for %s: status %d, %s", method, path, o.Role, w.Code, w.Body)
			}
		}
	}
	if called < 60 {
		t.Errorf("the description has only %d operations", called)
	}
	routes := admintest.Table(h.Parts)
	for _, r := range routes {
		o, ok := d.Paths[strings.ReplaceAll(strings.TrimSuffix(r.Path, "{$}"), "...}", "}")][strings.ToLower(r.Method)]
		if !ok || o.Role != r.Role.String() {
			t.Errorf("the description lacks %s %s for %v, or has it for %q", r.Method, r.Path, r.Role, o.Role)
		}
		if r.Does == "" {
			t.Errorf("%s %s does not say in its row what it does", r.Method, r.Path)
		}
	}
	if w := h.Ask(account.Owner, "GET", "/api", ""); w.Code != 200 || strings.Count(w.Body.String(), "<form") < 20 {
		t.Errorf("/api: status %d, or fewer than 20 forms: %s", w.Code, w.Body)
	}
}

func TestRoutesThatSayTheirEffectAreDescribed(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, r := range append(admintest.Table(h.Parts), (&exception.Votes{}).Routes(h.Site)...) {
		takes := slices.ContainsFunc(append(slices.Clone(r.Form), r.Query...), func(f web.Field) bool { return f.Name == "dry_run" })
		if tells, _ := r.HasDryRun(); takes != tells {
			t.Errorf("%s %s: the description has dry_run: %v; the route shows its effect: %v", r.Method, r.Path, takes, tells)
		}
	}
}
