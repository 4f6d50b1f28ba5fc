package admin

import (
	"net/http"
	"slices"

	"shuultuur/check/picture"
	"shuultuur/event"
	"shuultuur/release"
)

// pictureRoutes returns the routes of pictures with findings. Looking at them
// is recorded in the audit log.
//
//	GET /pictures       what was found, the newest first; HTML or JSON
//	GET /pictures/{id}  the blurred thumbnail of one
func (p *Parts) pictureRoutes() []route {
	if p.Pictures == nil || release.Small {
		return nil
	}
	page := pageOf("pictures.html", p.Pause.notice)
	return []route{
		{"GET", "/pictures", lead, func(w http.ResponseWriter, r *http.Request) { p.pictures(w, r, page) }},
		{"GET", "/pictures/{id}", lead, p.thumbnail},
	}
}

// visibleFindings returns the findings that the user may see.
func (p *Parts) visibleFindings(r *http.Request) (all []picture.GalleryItem) {
	b := (&reader{parts: p}).bounds(userOf(r))
	for _, f := range p.Pictures.All() {
		row := event.Row{URL: f.URL, Client: f.Client, User: f.User}
		if !b.redact(&row) {
			continue
		}
		f.URL, f.Client, f.User = row.URL, row.Client, row.User
		if b.noURLs {
			f.Findings = slices.Clone(f.Findings)
			for i := range f.Findings {
				f.Findings[i].Evidence = ""
			}
		}
		all = append(all, f)
	}
	return all
}

func (p *Parts) pictures(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	if err := p.server.record(r, "look at pictures", http.StatusOK, ""); err != nil {
		http.Error(w, "no picture is shown while that cannot be recorded: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	all := p.visibleFindings(r)
	if !isPage(r) {
		writeJSON(w, http.StatusOK, append([]picture.GalleryItem{}, all...))
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
	writePage(w, page, http.StatusOK, d)
}

func (p *Parts) thumbnail(w http.ResponseWriter, r *http.Request) {
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
