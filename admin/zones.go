package admin

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"strings"

	"shuultuur/zone/authority"
)

var (
	//go:embed zones.html
	zonesPage string
	//go:embed zone.html
	zonePage string
)

// Bounds of what is shown and taken of a zone.
const (
	zoneRecords = 2000
	maxZoneText = 16 << 20
)

// zoneRoutes returns what is about zones of our own.
//
//	GET /zones            all zones; HTML for browsers, else JSON
//	GET /zones/{origin}   view=VIEW: records of one, and the text of its file or
//	                      its values in Redis
//	POST /zones/{origin}  text and tag: replaces that
func (p *Parts) zoneRoutes() []route {
	if p.Zones == nil {
		return nil
	}
	list, one := pageOf(zonesPage, p.Pause.notice), pageOf(zonePage, p.Pause.notice)
	show := func(w http.ResponseWriter, r *http.Request, status int, d *zoneData) {
		if isPage(r) {
			writePage(w, one, status, d)
			return
		}
		writeJSON(w, status, d)
	}
	return []route{
		{"GET", "/zones", operator, func(w http.ResponseWriter, r *http.Request) {
			d := struct {
				Zones    []authority.Shown `json:"zones"`
				Problems []string          `json:"problems"`
			}{p.Zones().Show(), append([]string{}, p.Zones().Problems()...)}
			if isPage(r) {
				writePage(w, list, http.StatusOK, d)
				return
			}
			writeJSON(w, http.StatusOK, d)
		}},
		{"GET", "/zones/{origin}", operator, func(w http.ResponseWriter, r *http.Request) {
			d, err := p.zone(r.Context(), r.PathValue("origin"), r.URL.Query().Get("view"))
			if err != nil {
				http.Error(w, err.Error(), statusOfZone(err))
				return
			}
			show(w, r, http.StatusOK, d)
		}},
		{"POST", "/zones/{origin}", operator, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxZoneText)
			origin, view := r.PathValue("origin"), r.FormValue("view")
			text := strings.ReplaceAll(r.FormValue("text"), "\r\n", "\n") // as forms send them
			d, err := p.zone(r.Context(), origin, view)
			if err == nil && r.FormValue("tag") != d.Tag {
				err = ErrChanged
			}
			if err == nil {
				err = p.Zones().Write(r.Context(), origin, view, []byte(text))
			}
			switch {
			case err == nil && isPage(r):
				http.Redirect(w, r, r.URL.Path+"?view="+view, http.StatusSeeOther)
			case err == nil:
				writeJSON(w, http.StatusOK, map[string]string{"saved": origin})
			case d == nil || !isPage(r):
				http.Error(w, err.Error(), statusOfZone(err))
			default: // what was written is not lost
				d.Text, d.Error = text, err.Error()
				show(w, r, statusOfZone(err), d)
			}
		}},
	}
}

// zoneData is what is shown of a zone.
type zoneData struct {
	authority.Shown
	Lines []string `json:"lines"`          // records as text
	Cut   bool     `json:"cut,omitempty"`  // there are more
	Text  string   `json:"text,omitempty"` // of the file, or values in Redis
	Tag   string   `json:"tag,omitempty"`  // of the text
	Error string   `json:"error,omitempty"`
}

func (p *Parts) zone(ctx context.Context, origin, view string) (*zoneData, error) {
	a := p.Zones()
	for _, s := range a.Show() {
		if strings.TrimSuffix(s.Origin, ".") != strings.ToLower(strings.TrimSuffix(origin, ".")) || s.View != view {
			continue
		}
		d := &zoneData{Shown: s, Lines: []string{}}
		switch text, err := a.Text(ctx, s.Origin, view); {
		case err == nil:
			d.Text, d.Tag = string(text), Tag(text)
		case s.Path != "":
			return nil, err
		case !errors.Is(err, authority.ErrNoZone): // Redis is away: what is served can be shown
			d.Error = err.Error()
		}
		if s.Unavailable != "" {
			return d, nil
		}
		var err error
		d.Lines, d.Cut, err = a.Records(s.Origin, view, zoneRecords)
		return d, err
	}
	return nil, authority.ErrNoZone
}

func statusOfZone(err error) int {
	switch {
	case errors.Is(err, authority.ErrNoZone):
		return http.StatusNotFound
	case errors.Is(err, ErrChanged):
		return http.StatusPreconditionFailed
	}
	return http.StatusBadRequest
}
