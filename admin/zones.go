//go:build !small

package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/setting"
	"shuultuur/zone/authority"
)

// Limits for showing and accepting a zone.
const (
	zoneRecords = 200 // of one page
	maxZoneText = 16 << 20

	maxZoneFiles = 1 << 20 // an index past the end of any list of settings appends
)

// zoneRoutes returns what is about zones of our own.
//
//	GET /zones                    all zones; HTML for browsers, else JSON
//	POST /zones                   origin, in, server and address: makes one
//	GET /zones/{origin}           view=VIEW: one with its records (q=TEXT finds
//	                              some), the text of its file or its values in
//	                              Redis, and who changed it
//	POST /zones/{origin}          text replaces that; version=ID takes one back
//	POST /zones/{origin}/record   adds, changes or deletes one record
//	POST /zones/{origin}/delete   deletes the zone
//	POST /zones/{origin}/restore  makes a deleted zone again
//
// What changes a zone needs its ETag, in If-Match or as tag.
func (p *Parts) zoneRoutes() []route {
	if p.Zones == nil {
		return nil
	}
	z := &zonePages{p, pageOf("zones.html", p.Pause.notice), pageOf("zone.html", p.Pause.notice)}
	var adds []route
	if p.Settings != nil {
		adds = []route{
			{"POST", "/zones", operator, func(w http.ResponseWriter, r *http.Request) {
				if err := z.create(w, r); err != nil {
					z.show(w, r, err)
				}
			}},
			{"POST", "/zones/{origin}/delete", operator, z.remove},
			{"POST", "/zones/{origin}/restore", operator, z.restore},
		}
	}
	return append(adds, []route{
		{"GET", "/zones", operator, func(w http.ResponseWriter, r *http.Request) { z.show(w, r, nil) }},
		{"GET", "/zones/{origin}", operator, z.one},
		{"POST", "/zones/{origin}", operator, z.replace},
		{"POST", "/zones/{origin}/record", operator, z.record},
	}...)
}

// zonePages show zones, and make and change them.
type zonePages struct {
	p          *Parts
	page, zone pageTemplate
}

// zones returns the zones in use.
func (z *zonePages) zones() authority.Editor { return authority.Editor{Authority: z.p.Zones()} }

// show shows all zones, or why a zone was not made.
func (z *zonePages) show(w http.ResponseWriter, r *http.Request, failed error) {
	zones := z.zones()
	_, redis := zones.Places()
	d := struct {
		May      bool                                     `json:"-"` // whether zones can be added
		Zones    []authority.Summary                      `json:"zones"`
		Problems []string                                 `json:"problems"`
		Redis    bool                                     `json:"redis"` // zones may be there, too
		Deleted  []deletedZone                            `json:"deleted,omitempty"`
		Error    string                                   `json:"error,omitempty"`
		Asked    struct{ Origin, Server, Address string } `json:"-"`
	}{Zones: zones.Show(), May: z.p.Settings != nil, Problems: append([]string{}, zones.Problems()...), Redis: redis}
	d.Asked.Origin, d.Asked.Server, d.Asked.Address = r.PostForm.Get("origin"), r.PostForm.Get("server"), r.PostForm.Get("address")
	if d.May {
		d.Deleted = z.deletedZones()
	}
	status := http.StatusOK
	if failed != nil {
		status, d.Error = statusOfZone(failed), failed.Error()
	}
	respond(w, r, z.page, status, d, d, d.Error)
}

// zoneFolder is the folder for files of new zones if the settings name none; it
// is beside the settings.
const zoneFolder = "zone-files"

// create makes a zone, and answers unless it fails. For the first file it adds the folder to
// the settings.
func (z *zonePages) create(w http.ResponseWriter, r *http.Request) (err error) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		return err
	}
	n := authority.NewZone{Origin: r.PostForm.Get("origin"), Server: strings.TrimSpace(r.PostForm.Get("server"))}
	if a := strings.TrimSpace(r.PostForm.Get("address")); a != "" {
		if n.Address, err = netip.ParseAddr(a); err != nil {
			return fmt.Errorf("address=%q is not an address", a)
		}
	}
	return z.createZone(w, r, n.Origin, r.PostForm.Get("in") == "redis", func(folder string, trial bool) (string, error) {
		n.Trial = trial
		return z.zones().Create(r.Context(), folder, n)
	})
}

// showEffect shows whose answers a zone changes, see [Parts.showEffect].
func (z *zonePages) showEffect(w http.ResponseWriter, r *http.Request, origin, back string, diff []diffLine) (bool, error) {
	if !mustForetell(r) {
		return false, nil
	}
	origin = strings.TrimSuffix(origin, ".")
	return z.p.showEffect(w, r, pendingChange{Back: back, Told: &consequence{Name: origin, Asked: z.queriesOfDay(r.Context(), origin), Diff: diff}})
}

// createZone makes a zone in a folder or in Redis, and redirects to it. On trial, do only looks for
// mistakes.
func (z *zonePages) createZone(w http.ResponseWriter, r *http.Request, origin string, inRedis bool, do func(folder string, trial bool) (path string, err error)) error {
	p := z.p
	folder, redis := z.zones().Places()
	var changes []setting.Change
	if redis && inRedis {
		folder = ""
	} else if folder == "" {
		folder = filepath.Join(filepath.Dir(p.Settings.File), zoneFolder)
		changes = append(changes, setting.Change{Path: []any{"dns", "zones", "files", maxZoneFiles}, Value: map[string]string{"path": zoneFolder}})
	}
	if _, err := do(folder, true); err != nil {
		return err
	}
	if shown, err := z.showEffect(w, r, origin, "/zones", nil); shown || err != nil {
		return err
	}
	path, err := do(folder, false)
	if err != nil {
		return err
	}
	then := "/zones/" + url.PathEscape(origin)
	if changes != nil {
		p.Settings.change(w, r, "a folder of zones, with "+origin, then, changes)
		if folder, _ := z.zones().Places(); folder == "" { // the change was refused
			return os.Remove(path)
		}
		return nil
	}
	await(r.Context(), 50, func() bool { _, err := z.get(r.Context(), origin, "", "", 0); return err == nil })
	if isPage(r) {
		http.Redirect(w, r, then, http.StatusSeeOther)
		return nil
	}
	writeJSON(w, http.StatusCreated, map[string]string{"saved": origin})
	return nil
}

// await waits, for at most a number of tenths of a second, until the watcher of files and Redis
// has acted.
func await(ctx context.Context, times int, done func() bool) {
	for range times {
		if done() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
