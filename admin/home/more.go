package home

import (
	"net/http"

	"shuultuur/admin/web"
	"shuultuur/text"
)

// MoreRoutes returns the routes of what the menu needs besides the pages themselves.
//
//	GET /inbox            what waits for the user; HTML or JSON
//	GET /inbox.json       the same for programs, with counts by page
//	GET /more             all items of the menu, the theme and the language
//	POST /view            theme=light|dark|system&lang=TAG|browser&to=PATH keeps how the user wants
//	                      to see the pages, in a cookie
func MoreRoutes(site *web.Site) []web.Route {
	more, inbox := site.Page("more.html"), site.Page("inbox.html")
	return []web.Route{
		{Method: "GET", Path: "/inbox", Role: web.Helper,
			Link: web.LinkIn(web.Inbox, text.Mark("All")),
			Does: "what waits for the user", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				all := site.TasksFor(w, r)
				web.Respond(w, r, inbox, http.StatusOK, struct{ Tasks []web.Task }{all}, append([]web.Task{}, all...), "")
			}},
		{Method: "GET", Path: "/inbox.json", Role: web.Helper,
			Does: "what waits for the user, with counts by page",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				all, counts := site.Waiting(w, r)
				web.WriteJSON(w, http.StatusOK, struct {
					Counts map[string]int `json:"counts"`
					Tasks  []web.Task     `json:"tasks"`
				}{counts, append([]web.Task{}, all...)})
			}},
		{Method: "GET", Path: web.MorePath, Role: web.Viewer,
			Does: "all items of the menu", Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				menu := web.MenuOf(w)
				if menu == nil {
					http.NotFound(w, r) // programs find the paths at /
					return
				}
				web.WritePage(w, more, http.StatusOK, struct {
					*web.Menu
					Languages []web.Language
				}{menu, site.Languages()})
			}},
		{Method: "POST", Path: web.ViewPath, Role: web.Viewer,
			Does: "keep how the user wants to see the pages", Gives: "text/html", Form: []web.Field{web.Optional("theme", "light | dark | system"), web.Optional("lang", "a language, or browser"), web.Optional("to", "path to return to")},
			Effect:  web.OfView,
			Handler: web.SetView},
	}
}
