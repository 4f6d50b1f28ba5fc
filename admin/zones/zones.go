//go:build !small

// Package zones has the pages of authoritative zones: one zone, its records, its file, and its
// versions. A change is checked and shown first, and then written to the file or to Redis.
package zones

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/zone/authority"
)

// Limits for showing and accepting a zone.
const (
	zoneRecords = 200 // of one page
	maxZoneText = 16 << 20

	maxZoneFiles = 1 << 20 // an index past the end of any list of settings appends
)

// Routes returns what is about zones of our own.
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
//	POST /zones/{origin}/sign     makes keys for it and signs it
//
// What changes a zone needs its ETag, in If-Match or as tag.
func (z *Pages) Routes() []web.Route {
	z.page, z.zone = z.Site.Page("zones.html"), z.Site.Page("zone.html")
	var adds []web.Route
	if z.Change != nil {
		adds = []web.Route{
			{Method: "POST", Path: "/zones", Role: web.Operator,
				Does: "make a zone with one name server, as a file or in Redis", Gives: web.PageOrJSON, Form: []web.Field{web.Required("origin", "name of the zone"), web.Optional("in", "redis; a file without it"), web.Optional("server", "name server; ns in the zone without it"), web.Optional("address", "address of a name server in the zone"), web.OnTrial},
				Effect: web.Explained,
				Handler: func(w http.ResponseWriter, r *http.Request) {
					if err := z.create(w, r); err != nil {
						z.show(w, r, err)
					}
				}},
			{Method: "POST", Path: "/zones/{origin}/delete", Role: web.Operator,
				Does: "delete a zone", Gives: web.PageOrJSON, Form: []web.Field{web.Optional("tag", "tag of the text that is replaced"), web.Optional("view", "view of the zone"), web.OnTrial},
				Effect:  web.Explained,
				Handler: z.remove},
			{Method: "POST", Path: "/zones/{origin}/restore", Role: web.Operator,
				Does: "restore a deleted zone", Form: []web.Field{web.OnTrial}, Gives: web.PageOrJSON,
				Effect:  web.Explained,
				Handler: z.restore},
			z.signRoute(),
		}
	}
	return append(adds, []web.Route{
		{Method: "GET", Path: "/zones", Role: web.Operator,
			Link: web.LinkIn(web.Network, text.Mark("Own zones")),
			Does: "zones of our own", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { z.show(w, r, nil) }},
		{Method: "GET", Path: "/zones/{origin}", Role: web.Operator,
			Does: "records of a zone, and the text of its file", Gives: web.PageOrJSON, Query: []web.Field{web.Optional("view", "view of the zone"), web.Optional("q", "name, type or data"), web.Optional("after", "how many to leave out, for the next page"), web.Optional("type", "type of record"), web.Optional("record", "identifier"), web.Optional("version", "identifier"), web.Optional("parent", "look: ask the parent for the DS record")},
			Handler: z.one},
		{Method: "POST", Path: "/zones/{origin}", Role: web.Operator,
			Does: "replace the text of a zone, or take a version back", Gives: web.PageOrJSON, Form: []web.Field{web.Optional("text", "text of the file"), web.Optional("version", "identifier"), web.Optional("tag", "tag of the text that is replaced"), web.Optional("view", "view of the zone"), web.Optional("reason", "reason, for the history"), web.OnTrial},
			Effect:  web.Explained,
			Handler: z.replace},
		{Method: "POST", Path: "/zones/{origin}/record", Role: web.Operator,
			Does: "add, change or delete one record of a zone", Gives: web.PageOrJSON, Form: slices.Concat([]web.Field{web.Required("what", "add | change | delete"), web.Optional("record", "identifier"), web.Optional("name", "name"), web.Optional("type", "type of record"), web.Optional("ttl", "In seconds; empty for that of the zone."), web.Optional("data", "data as in a zone file")}, recordFields(), []web.Field{web.Optional("tag", "tag of the text that is replaced"), web.Optional("view", "view of the zone"), web.Optional("reason", "reason, for the history"), web.OnTrial}),
			Effect:  web.Explained,
			Handler: z.record},
	}...)
}

// Pages show zones, and make and change them.
type Pages struct {
	Site *web.Site
	// Zones returns the zones in use.
	Zones func() *authority.Authority
	// Folder is that of the settings, and Kept that of their earlier versions; "" if they cannot be
	// changed.
	Folder, Kept string
	// Change changes the settings and redirects to a page; nil: they cannot be changed. It asks what to
	// change when it has read them, and returns the error of that.
	Change func(w http.ResponseWriter, r *http.Request, then string, what func() (reason string, changes []setting.Change, err error)) error
	Events event.Reader // nil: no record can be asked

	// writing is held while a zone is compared with what was read, and replaced. It is here because the
	// zones may be others after a reload.
	writing sync.Mutex

	page, zone web.PageTemplate
}

// show shows all zones, or why a zone was not made.
func (z *Pages) show(w http.ResponseWriter, r *http.Request, failed error) {
	zones := z.Zones()
	_, redis := zones.Places()
	d := struct {
		May      bool                                     `json:"-"` // whether zones can be added
		Zones    []authority.Summary                      `json:"zones"`
		Problems []string                                 `json:"problems"`
		Redis    bool                                     `json:"redis"` // zones may be there, too
		Deleted  []deletedZone                            `json:"deleted,omitempty"`
		Error    string                                   `json:"error,omitempty"`
		Asked    struct{ Origin, Server, Address string } `json:"-"`
	}{Zones: zones.Show(), May: z.Change != nil, Problems: append([]string{}, zones.Problems()...), Redis: redis}
	d.Asked.Origin, d.Asked.Server, d.Asked.Address = r.PostForm.Get("origin"), r.PostForm.Get("server"), r.PostForm.Get("address")
	if d.May {
		d.Deleted = z.deletedZones()
	}
	status := http.StatusOK
	if failed != nil {
		status, d.Error = statusOfZone(failed), failed.Error()
	}
	web.Respond(w, r, z.page, status, d, d, d.Error)
}

// zoneFolder is the folder for files of new zones if the settings name none; it
// is beside the settings.
const zoneFolder = "zone-files"

// create makes a zone, and answers unless it fails. For the first file it adds the folder to
// the settings.
func (z *Pages) create(w http.ResponseWriter, r *http.Request) (err error) {
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
		return z.Zones().Create(r.Context(), folder, n)
	})
}

// showEffect shows whose answers a zone changes, see [web.Site.ShowEffect].
func (z *Pages) showEffect(w http.ResponseWriter, r *http.Request, origin, back string, diff []web.DiffLine) (bool, error) {
	if !web.MustForetell(r) {
		return false, nil
	}
	origin = strings.TrimSuffix(origin, ".")
	return z.Site.ShowEffect(w, r, web.PendingChange{Back: back, Told: &web.Consequence{Name: origin, Asked: z.queriesOfDay(r.Context(), origin), Diff: diff}})
}

// createZone makes a zone in a folder or in Redis, and redirects to it. On trial, do only looks for
// mistakes.
func (z *Pages) createZone(w http.ResponseWriter, r *http.Request, origin string, inRedis bool, do func(folder string, trial bool) (path string, err error)) error {
	folder, redis := z.Zones().Places()
	var changes []setting.Change
	if redis && inRedis {
		folder = ""
	} else if folder == "" {
		folder = filepath.Join(z.Folder, zoneFolder)
		changes = append(changes, setting.Change{Path: []any{"dns", "zones", "files", maxZoneFiles}, Value: map[string]string{"path": zoneFolder}})
	}
	if _, err := do(folder, true); err != nil {
		return err
	}
	if shown, err := z.showEffect(w, r, origin, "/zones", nil); shown || err != nil {
		return err
	}
	z.writing.Lock()
	path, err := do(folder, false)
	z.writing.Unlock()
	if err != nil {
		return err
	}
	then := "/zones/" + url.PathEscape(origin)
	if changes != nil {
		if err := z.Change(w, r, then, func() (string, []setting.Change, error) { return "a folder of zones, with " + origin, changes, nil }); err != nil {
			return err
		}
		if folder, _ := z.Zones().Places(); folder == "" { // the change was refused
			return os.Remove(path)
		}
		return nil
	}
	await(r.Context(), 50, func() bool { _, err := z.get(r.Context(), origin, "", "", 0); return err == nil })
	if web.IsPage(r) {
		http.Redirect(w, r, then, http.StatusSeeOther)
		return nil
	}
	web.WriteJSON(w, http.StatusCreated, map[string]string{"saved": origin})
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
