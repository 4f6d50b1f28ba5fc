//go:build !small

package zones

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/zone"
	"shuultuur/zone/authority"
	"shuultuur/zone/redins"
)

// zoneData is the contents of the page about a zone.
type zoneData struct {
	authority.Summary
	authority.State
	Lines   []string           `json:"lines"`          // records as they are served
	Text    string             `json:"text,omitempty"` // of the file, or values in Redis
	Tag     string             `json:"tag,omitempty"`  // of the text
	List    []authority.Record `json:"list"`           // records that match the query
	Matches int                `json:"matches"`
	Before  *zoneSpan          `json:"-"`
	Next    *zoneSpan          `json:"next,omitempty"`
	Error   string             `json:"error,omitempty"`
	History []web.Version      `json:"history,omitempty"`

	Query   string         `json:"-"`
	Form    *recordForm    `json:"-"` // nil: records cannot be changed
	Preview *preview       `json:"-"`
	Of      *web.Version   `json:"-"` // compared with the present zone
	Diff    []web.DiffLine `json:"-"`
	Saved   string         `json:"-"`                // the version before the saved one
	May     bool           `json:"-"`                // be deleted
	Parent  *parent        `json:"parent,omitempty"` // what the zone above says; nil: it was not asked
}

// A zoneSpan is another page of the records of a zone.
type zoneSpan struct {
	After int `json:"after"` // records before it
	First int `json:"-"`
	Last  int `json:"-"` // 0 if that is not known
}

// recordForm is the form of one record.
type recordForm struct {
	ID              string // "" for a new one
	Name, Type, TTL string
	Types           []string
	Other           bool // the type is entered
	Fields          []recordField
	Wrong           struct{ Name, Type, TTL string } // mistakes in them
}

type recordField struct {
	Name, Label, Value string
	Numeric, Long      bool
	Error              string // the mistake in the record
}

// wrong puts a mistake at its field.
func (f *recordForm) wrong(at *authority.FieldError) {
	message := at.Err.Error()
	switch at.Field {
	case "name":
		f.Wrong.Name = message
	case "type":
		f.Wrong.Type, f.Other = message, true
	case "ttl":
		f.Wrong.TTL = message
	}
	for i := range f.Fields {
		if f.Fields[i].Name == at.Field {
			f.Fields[i].Error = message
		}
	}
}

// A preview is the effect of a change of a record.
type preview struct {
	What     string            `json:"-"`
	Record   *authority.Record `json:"record,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Diff     []web.DiffLine    `json:"diff"`
	Name     string            `json:"name"`            // whose records change, as clients ask for it
	Asked    *int              `json:"asked,omitempty"` // how often in the last day; nil: no record can be asked
	Saved    bool              `json:"saved"`
	Checked  string            `json:"-"`
	Fields   url.Values        `json:"-"` // the entered values
}

// recordLabels are the names of the fields of records: in words, or as the standard of the
// type says.
var recordLabels = map[string]string{
	"address": text.Mark("Address"), "target": text.Mark("Host"), "text": text.Mark("Text"), "priority": text.Mark("Priority"), "port": text.Mark("Port"),
	"value": text.Mark("Value"), "data": text.Mark("Data"), "preference": "Preference", "weight": "Weight", "flags": "Flags", "property": "Tag", "usage": "Usage",
	"selector": "Selector", "matching": "Matching type", "digest": "Digest", "keytag": "Key tag", "algorithm": "Algorithm", "digesttype": "Digest type",
	"protocol": "Protocol", "key": "Public key", "parameters": "SvcParams",
}

// recordFields returns the parts of a record's data, of all types.
func recordFields() (all []web.Field) {
	for _, name := range slices.Sorted(maps.Keys(recordLabels)) {
		if name != "data" {
			all = append(all, web.Optional(name, recordLabels[name]))
		}
	}
	return all
}

// pages sets the pages before and after the one with so many of all records.
func (d *zoneData) pages(after, shown int, more bool) {
	if more {
		d.Next = &zoneSpan{After: after + shown, First: after + shown + 1, Last: min(d.Matches, after+shown+zoneRecords)}
	}
	if after > 0 {
		first := max(0, after-zoneRecords)
		d.Before = &zoneSpan{First: first + 1, After: first, Last: after}
	}
}

// get returns a zone with a page of the records that match a query.
func (z *Pages) get(ctx context.Context, origin, view, query string, after int) (*zoneData, error) {
	a := z.Zones()
	for _, s := range a.Show() {
		if strings.TrimSuffix(s.Origin, ".") != strings.ToLower(strings.TrimSuffix(origin, ".")) || s.View != view {
			continue
		}
		d := &zoneData{Summary: s, State: a.State(s), Lines: []string{}, List: []authority.Record{}, Query: query, May: z.Change != nil}
		switch text, err := a.Text(ctx, s.Origin, view); {
		case err == nil:
			d.Text, d.Tag = string(text), web.Tag(text)
			if some, all, err := a.Editor().EditableRecords(ctx, s.Origin, view, query, after, zoneRecords); err == nil {
				d.List, d.Matches, d.Form = append(d.List, some...), all, formOf("", "A", nil)
				d.pages(after, len(some), all > after+len(some))
			}
			d.History = z.history(&s)
		case s.Path != "":
			return nil, err
		case !errors.Is(err, authority.ErrNoZone): // if Redis is away, show the zone as it is served
			d.Error = err.Error()
		}
		if s.Unavailable != "" {
			return d, nil
		}
		lines, more, err := a.Records(s.Origin, view, after, zoneRecords)
		d.Lines = append(d.Lines, lines...)
		if d.Form == nil {
			d.pages(after, len(lines), more)
		}
		return d, err
	}
	return nil, authority.ErrNoZone
}

// formOf makes the form of a record: of an existing one, or for a new one of a type, with what
// was entered.
func formOf(id, typ string, entered func(string) string) *recordForm {
	f := &recordForm{ID: id, Type: typ, Types: authority.Types}
	f.Other = !slices.Contains(authority.Types, typ)
	f.add(authority.Fields(typ), entered)
	if entered != nil {
		f.Name, f.TTL = entered("name"), entered("ttl")
	}
	return f
}

func (f *recordForm) add(fields []authority.Field, value func(string) string) {
	for _, field := range fields {
		x := recordField{Name: field.Name, Label: recordLabels[field.Name], Numeric: field.Numeric(), Long: slices.Contains([]string{"text", "digest", "key", "data", "parameters", "value"}, field.Name)}
		if value != nil {
			x.Value = value(field.Name)
		}
		f.Fields = append(f.Fields, x)
	}
}

// formFor makes the form for changing a record.
func formFor(r *authority.Record) *recordForm {
	values := r.Values()
	f := &recordForm{ID: r.ID, Name: r.Name, Type: r.Type, TTL: fmt.Sprint(r.TTL), Types: authority.Types, Other: !slices.Contains(authority.Types, r.Type)}
	f.add(r.Fields(), func(name string) string { return values[name] })
	return f
}

// one shows a zone, with a record to change, a type to add, or a version to compare.
func (z *Pages) one(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, _ := strconv.Atoi(q.Get("after")) // else the first page
	after = max(0, after)
	d, err := z.get(r.Context(), r.PathValue("origin"), q.Get("view"), q.Get("q"), after)
	if err == nil && d.Form != nil {
		if typ := strings.ToUpper(q.Get("type")); typ != "" {
			d.Form = formOf("", strings.TrimSuffix(typ, "OTHER"), nil)
		}
		if id := q.Get("record"); id != "" {
			var found *authority.Record
			if found, err = z.Zones().Editor().Find(r.Context(), d.Origin, d.View, id); err == nil {
				d.Form = formFor(found)
			}
		}
		if id := q.Get("version"); id != "" && err == nil {
			if d.Of, err = z.versionsOf(&d.Summary).One(id); err == nil {
				d.Diff = web.Diff(d.Text, d.Of.Text)
			}
		}
		d.Saved = q.Get("saved")
	}
	if err != nil {
		http.Error(w, err.Error(), statusOfZone(err))
		return
	}
	if q.Has("parent") && d.Signs {
		d.Parent = z.look(r.Context(), d)
	}
	z.write(w, r, http.StatusOK, d)
}

func (z *Pages) write(w http.ResponseWriter, r *http.Request, status int, d *zoneData) {
	if d.Tag != "" {
		w.Header().Set("ETag", `"`+d.Tag+`"`)
	}
	if web.IsPage(r) {
		web.WritePage(w, z.zone, status, d)
		return
	}
	web.WriteJSON(w, status, d)
}

// readForm reads the form of a change. It returns the zone if the tag matches the zone's text.
func (z *Pages) readForm(w http.ResponseWriter, r *http.Request) (*zoneData, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxZoneText)
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	d, err := z.get(r.Context(), r.PathValue("origin"), r.Form.Get("view"), "", 0)
	if err == nil && cmp.Or(r.PostForm.Get("tag"), strings.Trim(r.Header.Get("If-Match"), `"`)) != d.Tag {
		err = zone.ErrChanged
	}
	return d, err
}

// replace replaces the text of a zone, or restores a version.
func (z *Pages) replace(w http.ResponseWriter, r *http.Request) {
	d, err := z.readForm(w, r)
	fresh := strings.ReplaceAll(r.Form.Get("text"), "\r\n", "\n") // as forms send them
	reason := r.Form.Get("reason")
	if id := r.Form.Get("version"); id != "" && err == nil {
		var v *web.Version
		if v, err = z.versionsOf(&d.Summary).One(id); err == nil {
			var raised []byte
			raised, err = z.Zones().Editor().WithNewSerial(r.Context(), d.Origin, d.View, []byte(v.Text))
			fresh, reason = string(raised), cmp.Or(reason, "back to the version of "+v.At.Local().Format("2006-01-02 15:04"))
		}
	}
	if err == nil {
		err = z.Zones().Editor().Check(r.Context(), d.Origin, d.View, []byte(fresh))
	}
	if err == nil {
		var shown bool
		if shown, err = z.showEffect(w, r, d.Origin, zonePath(d), web.Diff(d.Text, fresh)); shown {
			return
		}
	}
	if err == nil {
		err = z.save(r, d, []byte(fresh), reason)
	}
	switch {
	case err == nil:
		z.saved(w, r, d)
	case d == nil || !web.IsPage(r):
		http.Error(w, err.Error(), statusOfZone(err))
	default: // so that the text is not lost
		d.Error = err.Error()
		if fresh != "" {
			d.Text = fresh
		}
		z.write(w, r, statusOfZone(err), d)
	}
}

// zonePath returns the path of the page of a zone.
func zonePath(d *zoneData) string {
	return "/zones/" + url.PathEscape(d.Origin) + "?" + url.Values{"view": {d.View}}.Encode()
}

// save writes the text of a zone and keeps it and the one before in its history. It waits a
// moment until the zone is served.
func (z *Pages) save(r *http.Request, d *zoneData, fresh []byte, reason string) error {
	a := z.Zones().Editor()
	if err := a.Check(r.Context(), d.Origin, d.View, fresh); err != nil {
		return err
	}
	if err := z.put(r.Context(), d, fresh, web.Author(r), reason); err != nil {
		return err
	}
	if d.Serial > 0 {
		await(r.Context(), 15, func() bool {
			return !slices.ContainsFunc(z.Zones().Show(), func(s authority.Summary) bool {
				return s.Origin == d.Origin && s.View == d.View && s.Serial == d.Serial
			})
		})
	}
	return nil
}

// put replaces the text that was read, and keeps both in the history.
func (z *Pages) put(ctx context.Context, d *zoneData, fresh []byte, by, reason string) error {
	z.writing.Lock()
	defer z.writing.Unlock()
	a := z.Zones().Editor()
	if err := a.Unchanged(ctx, d.Origin, d.View, []byte(d.Text)); err != nil {
		return err // before it is kept once more
	}
	kept := z.versionsOf(&d.Summary)
	if kept.Dir != "" {
		if err := kept.KeepDisk([]byte(d.Text)); err != nil {
			return err
		}
		if all, err := kept.Names(); err == nil && len(all) > 0 {
			d.Saved = all[0]
		}
	}
	if err := a.Write(ctx, d.Origin, d.View, []byte(d.Text), fresh); err != nil {
		return err
	}
	if kept.Dir != "" {
		return kept.Add(fresh, by, reason)
	}
	return nil
}

// saved redirects to the zone, where the change can be undone.
func (z *Pages) saved(w http.ResponseWriter, r *http.Request, d *zoneData) {
	if web.IsPage(r) {
		http.Redirect(w, r, "/zones/"+url.PathEscape(d.Origin)+"?"+url.Values{"view": {d.View}, "saved": {cmp.Or(d.Saved, "yes")}}.Encode(), http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{"saved": d.Origin, "version": d.Saved})
}

// record adds, changes or deletes one record. A page shows the effect first, programs ask
// with dry_run=true.
func (z *Pages) record(w http.ResponseWriter, r *http.Request) {
	d, err := z.readForm(w, r)
	f := r.Form
	what := f.Get("what")
	var e *authority.Edit
	switch {
	case err != nil:
	default:
		e, err = z.Zones().Editor().Edit(r.Context(), d.Origin, d.View, what, f.Get("record"), f.Get)
	}
	if err != nil {
		z.failRecord(w, r, d, err)
		return
	}
	out := &preview{What: what, Record: e.Record, Warnings: e.Warnings, Diff: web.Diff(string(e.Before), string(e.After)), Checked: web.Tag(e.After), Fields: r.PostForm}
	out.Name = strings.TrimSuffix(e.Name, ".")
	out.Asked = z.queriesOfDay(r.Context(), out.Name)
	dry := web.DryRun(f)
	if dry || web.IsPage(r) && f.Get("checked") != out.Checked {
		if !web.IsPage(r) {
			web.WriteJSON(w, http.StatusOK, out)
			return
		}
		d.Preview, d.Form = out, nil
		z.write(w, r, http.StatusOK, d)
		return
	}
	if err := z.save(r, d, e.After, cmp.Or(f.Get("reason"), what+" "+out.Name+" "+e.Type)); err != nil {
		z.failRecord(w, r, d, err)
		return
	}
	if web.IsPage(r) {
		z.saved(w, r, d)
		return
	}
	out.Saved = true
	web.WriteJSON(w, http.StatusOK, out)
}

// failRecord reports why a record was not changed, at the field with the
// mistake.
func (z *Pages) failRecord(w http.ResponseWriter, r *http.Request, d *zoneData, err error) {
	var at *authority.FieldError
	field, status := "", statusOfZone(err)
	if errors.As(err, &at) {
		field, status = at.Field, http.StatusUnprocessableEntity
	}
	switch {
	case d == nil || !web.IsPage(r) && field == "":
		http.Error(w, err.Error(), status)
	case !web.IsPage(r):
		web.WriteJSON(w, status, map[string]string{"field": field, "error": at.Err.Error()})
	default:
		d.Form = formOf(r.Form.Get("record"), strings.ToUpper(strings.TrimSpace(r.Form.Get("type"))), r.Form.Get)
		if field != "" {
			d.Form.wrong(at)
		} else {
			d.Error = err.Error()
		}
		z.write(w, r, status, d)
	}
}

// queriesOfDay returns how many requests and queries of the last day were for a host; nil if no record
// can be asked.
func (z *Pages) queriesOfDay(ctx context.Context, host string) *int {
	if z.Events == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	filter, err := event.ParseFilter("host:"+strings.TrimPrefix(host, "*."), time.Now())
	if err != nil {
		return nil
	}
	filter.Since = time.Now().Add(-24 * time.Hour)
	all, err := z.Events.Count(ctx, event.Question{Filter: filter})
	if err != nil {
		return nil
	}
	n := 0
	if len(all) == 1 && len(all[0]) == 1 {
		n = all[0][0].Events
	}
	return &n
}

// remove deletes a zone. Its text stays in the history.
func (z *Pages) remove(w http.ResponseWriter, r *http.Request) {
	d, err := z.readForm(w, r)
	if err == nil && d.View == "" && d.Tag == "" {
		err = authority.ErrNoZone
	}
	if err == nil && web.MustForetell(r) {
		f := web.Consequence{Name: strings.TrimSuffix(d.Origin, "."), Diff: web.Diff(d.Text, "")}
		f.Asked = z.queriesOfDay(r.Context(), f.Name)
		var shown bool
		shown, err = z.Site.ShowEffect(w, r, web.PendingChange{Back: zonePath(d), Told: &f, JSON: map[string]any{"saved": false, "records": d.Matches, "asked": f.Asked}})
		if shown {
			return
		}
	}
	named := -1
	if err == nil {
		named, err = z.delete(r.Context(), d)
	}
	switch {
	case err != nil && (d == nil || !web.IsPage(r)):
		http.Error(w, err.Error(), statusOfZone(err))
	case err != nil:
		d.Error = err.Error()
		z.write(w, r, statusOfZone(err), d)
	case named >= 0: // the file stays, and the settings no longer name it
		err := z.Change(w, r, "/zones", func() (string, []setting.Change, error) {
			at := z.Zones().Editor().Named(d.Origin, d.View) // in the settings that are changed
			if at < 0 {
				return "", nil, zone.ErrChanged
			}
			return "without the zone " + d.Origin, []setting.Change{{Path: []any{"dns", "zones", "files", at}, Remove: true}}, nil
		})
		if err != nil {
			z.show(w, r, err)
		}
	default:
		await(r.Context(), 50, func() bool {
			_, err := z.get(r.Context(), d.Origin, d.View, "", 0)
			return errors.Is(err, authority.ErrNoZone)
		})
		if web.IsPage(r) {
			http.Redirect(w, r, "/zones", http.StatusSeeOther)
			return
		}
		web.WriteJSON(w, http.StatusOK, map[string]string{"deleted": d.Origin})
	}
}

// delete keeps the text that was read, and deletes the zone, see [authority.Editor.Delete].
func (z *Pages) delete(ctx context.Context, d *zoneData) (named int, err error) {
	z.writing.Lock()
	defer z.writing.Unlock()
	a := z.Zones().Editor()
	if err := a.Unchanged(ctx, d.Origin, d.View, []byte(d.Text)); err != nil {
		return -1, err
	}
	if err := z.versionsOf(&d.Summary).KeepDisk([]byte(d.Text)); err != nil {
		return -1, err
	}
	return a.Delete(ctx, d.Origin, d.View, []byte(d.Text))
}

// restore makes a deleted zone again from its text.
func (z *Pages) restore(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	origin := strings.ToLower(strings.TrimSuffix(r.PathValue("origin"), ".")) + "."
	if err := r.ParseForm(); err != nil {
		z.show(w, r, err)
		return
	}
	all := z.deletedZones()
	i := slices.IndexFunc(all, func(d deletedZone) bool { return d.Origin == origin })
	if i < 0 {
		z.show(w, r, authority.ErrNoZone)
		return
	}
	d := all[i]
	last, err := d.kept.One(d.Version)
	if err == nil {
		err = z.createZone(w, r, d.Origin, d.From == "redis", func(folder string, trial bool) (string, error) {
			if trial {
				return "", nil
			}
			return z.Zones().Editor().Restore(r.Context(), folder, d.Origin, []byte(last.Text))
		})
	}
	if err != nil {
		z.show(w, r, err)
	}
}

// A deletedZone has a text in the history, and is not served.
type deletedZone struct {
	Origin  string    `json:"origin"`
	From    string    `json:"from"`
	At      time.Time `json:"at"` // of its last change
	Version string    `json:"version"`
	kept    web.Versions
}

// versionsOf returns the history of a zone; without a folder if none is kept.
func (z *Pages) versionsOf(s *authority.Summary) web.Versions {
	if z.Kept == "" {
		return web.Versions{}
	}
	return web.Versions{Dir: filepath.Join(z.Kept, "zones", s.From+" "+url.PathEscape(s.Origin+" "+s.View))}
}

// history returns the last versions of a zone.
func (z *Pages) history(s *authority.Summary) []web.Version {
	kept := z.versionsOf(s)
	if kept.Dir == "" {
		return nil
	}
	all, err := kept.All()
	if err != nil {
		return nil
	}
	return all[:min(len(all), web.VersionsShown)]
}

// deletedZones returns the zones that can be restored: those that were visible to
// everybody.
func (z *Pages) deletedZones() (all []deletedZone) {
	if z.Kept == "" {
		return nil
	}
	dir := filepath.Join(z.Kept, "zones")
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing has changed yet
	}
	served := z.Zones().Show()
	for _, f := range folders {
		from, name, _ := strings.Cut(f.Name(), " ")
		name, err := url.PathUnescape(name)
		origin, view, ok := strings.Cut(name, " ")
		if err != nil || !ok || view != "" || slices.ContainsFunc(served, func(s authority.Summary) bool { return s.Origin == origin && s.View == "" }) {
			continue
		}
		d := deletedZone{Origin: origin, From: from, kept: web.Versions{Dir: filepath.Join(dir, f.Name())}}
		if names, err := d.kept.Names(); err == nil && len(names) > 0 {
			d.Version = names[0]
			if v, err := d.kept.One(names[0]); err == nil {
				d.At = v.At
			}
			all = append(all, d)
		}
	}
	return all
}

func statusOfZone(err error) int {
	switch {
	case errors.Is(err, authority.ErrNoZone):
		return http.StatusNotFound
	case errors.Is(err, zone.ErrChanged):
		return http.StatusPreconditionFailed
	case errors.Is(err, redins.ErrTaken), errors.Is(err, fs.ErrExist), errors.Is(err, authority.ErrNoRecord):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}
