//go:build !small

// Package api describes the admin address to programs. It is made last, from the rows of all
// other pages: [Routes] writes them as OpenAPI and as a page with forms, [AssistantRoutes] offers
// some of them as tools of the Model Context Protocol, whose calls it sends through the guard as
// requests of the one who asked.
package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/text"
)

// The description of the API is made from the routes.

type object = map[string]any

var inPath = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

// pathOf returns the path of a route in OpenAPI's syntax.
func pathOf(r web.Route) string {
	return strings.ReplaceAll(strings.TrimSuffix(r.Path, "{$}"), "...}", "}")
}

// describe makes the description of some routes.
func describe(all []web.Route) object {
	paths := object{}
	for _, r := range all {
		path, _ := paths[pathOf(r)].(object)
		if path == nil {
			path = object{}
			paths[pathOf(r)] = path
		}
		path[strings.ToLower(r.Method)] = describeRoute(r)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Shuultuur", "version": "1", "license": object{"name": "BSD-2-Clause", "identifier": "BSD-2-Clause"},
			"description": "The admin address of a gateway. Each operation names the least role that may use it, as x-role. Errors are texts for a person."},
		"servers": []object{{"url": "/", "description": "the gateway that gave this description"}},
		"paths":   paths,
		"components": object{"securitySchemes": object{
			"token":   object{"type": "http", "scheme": "bearer", "description": "a token of an account, or listen.token"},
			"session": object{"type": "apiKey", "in": "cookie", "name": web.CookieName},
		}},
	}
}

func describeRoute(r web.Route) object {
	d := object{"operationId": strings.ToLower(r.Method) + regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(pathOf(r), "-"),
		"summary": cmp.Or(r.Does, pathOf(r)), "x-role": r.Role.String(), "responses": responsesOf(r)}
	var params []object
	for _, m := range inPath.FindAllStringSubmatch(r.Path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, f := range r.Query {
		params = append(params, object{"name": f.Name, "in": "query", "required": f.Required, "description": f.What, "schema": object{"type": "string"}})
	}
	if params != nil {
		d["parameters"] = params
	}
	content := object{}
	if len(r.Form) > 0 {
		fields, required := object{}, []string{}
		for _, f := range r.Form {
			fields[f.Name] = object{"type": "string", "description": f.What}
			if f.Required {
				required = append(required, f.Name)
			}
		}
		content["application/x-www-form-urlencoded"] = object{"schema": object{"type": "object", "properties": fields, "required": required}}
	}
	for kind := range strings.FieldsSeq(r.Body) {
		content[kind] = object{"schema": object{}}
	}
	if len(content) > 0 {
		d["requestBody"] = object{"required": r.Body != "" || slices.ContainsFunc(r.Form, func(f web.Field) bool { return f.Required }), "content": content}
	}
	switch r.Role {
	case web.Anyone:
		d["security"] = []object{}
	case web.Monitor:
		d["security"] = []object{{}, {"token": []string{}}, {"session": []string{}}}
	default:
		d["security"] = []object{{"token": []string{}}, {"session": []string{}}}
	}
	return d
}

func responsesOf(r web.Route) object {
	content := object{}
	for kind := range strings.FieldsSeq(cmp.Or(r.Gives, "application/json")) {
		content[kind] = object{"schema": object{}}
	}
	all := object{"200": object{"description": "done", "content": content}}
	text := func(status, what string) {
		all[status] = object{"description": what, "content": object{web.AnyText: object{"schema": object{"type": "string"}}}}
	}
	if len(r.Query)+len(r.Form) > 0 || r.Body != "" || strings.Contains(r.Path, "{") {
		text("400", "what was sent is wrong")
		text("404", "there is nothing of that name")
	}
	if r.Role > web.Anyone {
		text("401", "nobody is signed in, or the token is wrong")
		text("429", "too many wrong tokens or passwords came from this address")
	}
	text("403", "not for this role, scope, Host or Origin")
	text("503", "it cannot be answered or recorded now")
	return all
}

// Routes describe the API: routes are all others.
//
//	GET /openapi.json     OpenAPI 3.1
//	GET /api              a page with forms to try it
func Routes(site *web.Site, routes []web.Route) []web.Route {
	page := site.Page("api.html")
	all := slices.Clone(routes)
	mine := []web.Route{
		{Method: "GET", Path: "/openapi.json", Role: web.Viewer, Does: "this description", Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			e := json.NewEncoder(w) // each time anew: few ask, and it is large
			e.SetIndent("", " ")
			_ = e.Encode(describe(all)) // the client went away: no one to notify
		}},
		{Method: "GET", Path: "/api", Role: web.Viewer,
			Link: web.LinkIn(web.System, text.Mark("API")),
			Does: "the description as a page, with forms to try it", Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { showAPI(w, r, all, page) }},
	}
	all = append(all, mine...)
	return mine
}

// An operable is an operation on the page.
type operable struct {
	Method, Path, Does, Role, Body string
	Fields                         []shownField
	May                            bool // whether the user may use it
	Form                           bool // whether a form can send it
}

type shownField struct {
	Name, What string
	Required   bool
}

func showAPI(w http.ResponseWriter, r *http.Request, routes []web.Route, page web.PageTemplate) {
	say := web.TextsOf(w).Say
	var all []operable
	for _, x := range routes {
		t := operable{Method: x.Method, Path: pathOf(x), Does: say(cmp.Or(x.Does, pathOf(x))), Role: x.Role.String(), Body: x.Body, May: web.UserOf(r).Role >= web.Least[x.Role],
			Form: x.Body == "" && !strings.Contains(pathOf(x), "{") && !strings.HasPrefix(x.Path, "/debug/") && !(x.Method == "GET" && len(x.Form) > 0)}
		for _, f := range append(slices.Clone(x.Query), x.Form...) {
			t.Fields = append(t.Fields, shownField{f.Name, say(f.What), f.Required})
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b operable) int { return strings.Compare(a.Path, b.Path) })
	web.WritePage(w, page, http.StatusOK, all)
}
