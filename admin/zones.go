package admin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/release"
	"shuultuur/setting"
	"shuultuur/zone/authority"
	"shuultuur/zone/redins"
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

	maxZoneFiles = 1 << 20 // past the end of any list of settings: appends
)

// zoneRoutes returns what is about zones of our own.
//
//	GET /zones            all zones; HTML for browsers, else JSON
//	POST /zones           origin, in, server and address: makes one
//	GET /zones/{origin}   view=VIEW: records of one, and the text of its file or
//	                      its values in Redis
//	POST /zones/{origin}  text and tag: replaces that
func (p *Parts) zoneRoutes() []route {
	if p.Zones == nil || release.Small {
		return nil
	}
	all, one := &zonePages{p, pageOf(zonesPage, p.Pause.notice)}, pageOf(zonePage, p.Pause.notice)
	show := func(w http.ResponseWriter, r *http.Request, status int, d *zoneData) {
		if isPage(r) {
			writePage(w, one, status, d)
			return
		}
		writeJSON(w, status, d)
	}
	var adds []route
	if p.Settings != nil {
		adds = []route{{"POST", "/zones", operator, func(w http.ResponseWriter, r *http.Request) {
			if err := all.create(w, r); err != nil {
				all.show(w, r, err)
			}
		}}}
	}
	return append(adds, []route{
		{"GET", "/zones", operator, func(w http.ResponseWriter, r *http.Request) { all.show(w, r, nil) }},
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
	}...)
}

// zonePages show all zones, and make new ones.
type zonePages struct {
	p    *Parts
	page pageTemplate
}

// show shows all zones, or why one was not made.
func (z *zonePages) show(w http.ResponseWriter, r *http.Request, failed error) {
	zones := z.p.Zones()
	_, redis := zones.Places()
	d := struct {
		May      bool                                     `json:"-"` // be added to
		Zones    []authority.Shown                        `json:"zones"`
		Problems []string                                 `json:"problems"`
		Redis    bool                                     `json:"redis"` // zones may be there, too
		Error    string                                   `json:"error,omitempty"`
		Asked    struct{ Origin, Server, Address string } `json:"-"`
	}{Zones: zones.Show(), May: z.p.Settings != nil, Problems: append([]string{}, zones.Problems()...), Redis: redis}
	d.Asked.Origin, d.Asked.Server, d.Asked.Address = r.PostForm.Get("origin"), r.PostForm.Get("server"), r.PostForm.Get("address")
	status := http.StatusOK
	if failed != nil {
		status, d.Error = statusOfZone(failed), failed.Error()
	}
	respond(w, r, z.page, status, d, d, d.Error)
}

// zoneFolder is where files of new zones go while the settings name no folder of
// them: beside the settings.
const zoneFolder = "zone-files"

// create makes a zone, and answers unless it fails. The first file has the folder
// added to the settings.
func (z *zonePages) create(w http.ResponseWriter, r *http.Request) (err error) {
	p := z.p
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		return err
	}
	n := authority.Fresh{Origin: r.PostForm.Get("origin"), Server: strings.TrimSpace(r.PostForm.Get("server"))}
	if a := strings.TrimSpace(r.PostForm.Get("address")); a != "" {
		if n.Address, err = netip.ParseAddr(a); err != nil {
			return fmt.Errorf("address=%q is not an address", a)
		}
	}
	folder, redis := p.Zones().Places()
	var changes []setting.Change
	if redis && r.PostForm.Get("in") == "redis" {
		folder = ""
	} else if folder == "" {
		folder = filepath.Join(filepath.Dir(p.Settings.File), zoneFolder)
		changes = append(changes, setting.Change{Path: []any{"dns", "zones", "files", maxZoneFiles}, Value: map[string]string{"path": zoneFolder}})
	}
	path, err := p.Zones().Create(r.Context(), folder, n)
	if err != nil {
		return err
	}
	then := "/zones/" + url.PathEscape(n.Origin)
	if changes != nil {
		p.Settings.change(w, r, "a folder of zones, with "+n.Origin, then, changes)
		if folder, _ := p.Zones().Places(); folder == "" { // the settings have refused it
			return os.Remove(path)
		}
		return nil
	}
	for range 50 { // what watches files and Redis needs a moment
		if _, err := p.zone(r.Context(), n.Origin, ""); err == nil {
			break
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	if isPage(r) {
		http.Redirect(w, r, then, http.StatusSeeOther)
		return nil
	}
	writeJSON(w, http.StatusCreated, map[string]string{"saved": n.Origin})
	return nil
}

// zoneData is what is shown of a zone.
type zoneData struct {
	authority.Shown
	authority.State
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
		d := &zoneData{Shown: s, State: a.State(s), Lines: []string{}}
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
	case errors.Is(err, redins.ErrTaken), errors.Is(err, fs.ErrExist):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}
