// Package watch has the pages of what is watched for people: alerts and what was around them,
// pictures that were found, and reports of a span of time.
package watch

import (
	"net/http"
	"slices"

	"shuultuur/admin/web"
	"shuultuur/check/picture"
	"shuultuur/event"
	"shuultuur/text"
)

// Pictures are the pages of pictures.
type Pictures struct {
	Site *web.Site
	// Pictures are the findings in pictures.
	Pictures *picture.Gallery
}

// Routes returns the routes of pictures with findings. Looking at them
// is recorded in the audit log.
//
//	GET /pictures       what was found, the newest first; HTML or JSON
//	GET /pictures/{id}  the blurred thumbnail of one
func (p *Pictures) Routes() []web.Route {
	page := p.Site.Page("pictures.html")
	return []web.Route{
		{Method: "GET", Path: "/pictures", Role: web.Lead,
			Link: web.LinkIn(web.Activity, text.Mark("Pictures")),
			Does: "what was found in pictures, the newest first; who looks is in the audit log", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.pictures(w, r, page) }},
		{Method: "GET", Path: "/pictures/{id}", Role: web.Lead,
			Does: "a blurred thumbnail", Query: web.ByID, Gives: "image/jpeg",
			Handler: p.thumbnail},
	}
}

// visibleFindings returns the findings that the user may see.
func (p *Pictures) visibleFindings(r *http.Request) (all []picture.GalleryItem) {
	b := p.Site.Bounds(web.UserOf(r))
	for _, f := range p.Pictures.All() {
		row := event.Row{URL: f.URL, Client: f.Client, User: f.User}
		if !b.Redact(&row) {
			continue
		}
		f.URL, f.Client, f.User = row.URL, row.Client, row.User
		if b.NoURLs {
			f.Findings = slices.Clone(f.Findings)
			for i := range f.Findings {
				f.Findings[i].Evidence = ""
			}
		}
		all = append(all, f)
	}
	return all
}

func (p *Pictures) pictures(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	if err := p.Site.Record(r, "look at pictures", http.StatusOK, ""); err != nil {
		http.Error(w, "no picture is shown while that cannot be recorded: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	all := p.visibleFindings(r)
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, append([]picture.GalleryItem{}, all...))
		return
	}
	type shownPicture struct {
		picture.GalleryItem
		Who string
	}
	var d struct{ Pictures []shownPicture }
	for _, f := range all {
		who := f.User
		if who == "" && f.Client.IsValid() {
			who = f.Client.String()
		}
		d.Pictures = append(d.Pictures, shownPicture{f, who})
	}
	web.WritePage(w, page, http.StatusOK, d)
}

func (p *Pictures) thumbnail(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	for _, f := range p.visibleFindings(r) {
		if f.ID == id && f.Thumbnail != nil {
			w.Header().Set("Content-Type", "image/jpeg")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(f.Thumbnail) // it fails if the client has gone away
			return
		}
	}
	http.Error(w, "there is no such picture any more", http.StatusNotFound)
}
