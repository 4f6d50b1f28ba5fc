package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/setting"
	"shuultuur/text"
)

// Settings shows and changes the settings file for the admin address. The text stays as it was
// written, with comments and order.
type Settings struct {
	File string // its path
	// Read returns the text on disk.
	Read func() ([]byte, error)
	// Check returns the mistakes in a text, as "shuultuur check" does: nil, or
	// [setting.Mistakes] with their lines.
	Check func(ctx context.Context, text []byte) error
	// Save writes a text and puts it into use. It returns [ErrChanged] if the text on disk does
	// not have the tag, and mistakes as Check does. remarks are the changes that need a
	// restart.
	Save     func(ctx context.Context, text []byte, tag, by, reason string) (remarks []string, err error)
	Versions Versions // those that are kept
	// Schema returns the JSON schema of the file, for the editor; nil: there is none.
	Schema func() ([]byte, error)
	Keys   []setting.Key // all keys that the file may have
	// Policies returns the policies in use with their text.
	Policies func() ([]PolicyView, error)

	page   pageTemplate // the editor
	effect func(context.Context, Trial) (*Effect, error)
}

// A Version is a text of settings that was in use, or is.
type Version struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"` // when it was saved, or found
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Tag    string    `json:"tag"`
	Text   string    `json:"text,omitempty"`
}

// An Effect is what other settings would have done to the events of a period.
type Effect struct {
	Since  time.Time `json:"since"`
	Judged int64     `json:"judged"`
	// Changed are the events with another verdict.
	Changed int64 `json:"changed"`
	// Unknown are events that cannot be judged again from the record.
	Unknown int64        `json:"unknown"`
	Cut     bool         `json:"cut,omitempty"` // there were more events; only the newest were judged
	Took    float64      `json:"took"`          // seconds
	Changes []EffectKind `json:"changes"`       // most frequent first
}

// An EffectKind is one kind of change.
type EffectKind struct {
	Policy   string   `json:"policy"`
	Category string   `json:"category"`
	Rule     string   `json:"rule"`
	Was      string   `json:"was"`
	Is       string   `json:"is"`
	Count    int64    `json:"count"`
	Examples []string `json:"examples"`
}

// describe describes the effect in a sentence.
func (e *Effect) describe(t *text.Texts) string {
	switch {
	case e.Judged == 0:
		return t.Say("There are no events of the last day to judge.")
	case e.Changed == 0:
		return t.Say("This change would have altered none of {all} requests.", "all", number(e.Judged))
	}
	return t.Say("This change would have altered {n} of {all} requests.", "n", number(e.Changed), "all", number(e.Judged))
}

// ErrChanged reports that the settings on the disk are others than those that were
// read.
var ErrChanged = errors.New("the settings on the disk were changed meanwhile; read them again, so that no change is lost")

// Tag is the entity tag of a text of settings.
func Tag(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

const (
	maxSettings = 2 << 20
	maxShown    = 20 // versions shown on the page
)

// routes returns the routes about the settings file.
//
//	GET /settings                the text, with its ETag; HTML for browsers
//	PUT /settings                the text; If-Match names the one it replaces,
//	                             reason=TEXT says why; dry_run=true only says
//	                             what it would do
//	POST /settings               the form of the page
//	GET /settings/schema         the JSON schema of the file
//	POST /settings/check         what is wrong with a text, as JSON: for the editor
//	GET /settings/versions       who saved what, when and why, as JSON
//	GET /settings/versions/{id}  one of them; HTML to compare it and take it back
func (s *Settings) routes(notice noticeFunc) []route {
	if s == nil {
		return nil
	}
	page := pageOf("settings.html", notice)
	s.page = page
	return append(s.policyRoutes(notice), []route{
		{"GET", "/settings", operator, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, page) }},
		{"PUT", "/settings", operator, s.put},
		{"POST", "/settings", operator, func(w http.ResponseWriter, r *http.Request) { s.form(w, r, page) }},
		{"POST", "/settings/check", operator, s.try},
		{"GET", "/settings/schema", operator, func(w http.ResponseWriter, r *http.Request) {
			if s.Schema == nil {
				http.NotFound(w, r)
				return
			}
			b, err := s.Schema()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/schema+json")
			_, _ = w.Write(b) // it fails if the client has gone away
		}},
		{"GET", "/settings/versions", operator, func(w http.ResponseWriter, r *http.Request) {
			all, err := s.Versions.All()
			answer(w, all, err)
		}},
		{"GET", "/settings/versions/{id}", operator, func(w http.ResponseWriter, r *http.Request) { s.version(w, r, page) }},
	}...)
}

// author returns the name of the user, for the history.
func author(r *http.Request) string {
	return userOf(r).Name + " at " + remote(r).String()
}

// settingsData is the contents of the page.
type settingsData struct {
	File, Text, Tag, Reason string
	Mistakes                []setting.Mistake
	Bad                     string // lines with mistakes, for the editor
	Diff                    []diffLine
	Checked                 string // tag of a text without mistakes whose effect is shown
	Effect                  *Effect
	NoEffect                string
	Done                    string
	Remarks                 []string
	Error                   string
	Versions                []Version
	Of                      *Version // the page is about this version
}

func (s *Settings) show(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	text, err := s.Read()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !isPage(r) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("ETag", `"`+Tag(text)+`"`)
		_, _ = w.Write(text) // the client went away: nobody to tell
		return
	}
	s.write(w, page, http.StatusOK, &settingsData{Text: string(text), Tag: Tag(text)})
}

func (s *Settings) write(w http.ResponseWriter, page pageTemplate, status int, d *settingsData) {
	d.File = s.File
	all, err := s.Versions.All()
	if err != nil && d.Error == "" {
		d.Error = err.Error()
	}
	d.Versions = all[:min(len(all), maxShown)]
	if d.Tag != "" {
		w.Header().Set("ETag", `"`+d.Tag+`"`)
	}
	for _, m := range d.Mistakes {
		if m.Line > 0 {
			d.Bad += strconv.Itoa(m.Line) + " "
		}
	}
	writePage(w, page, status, d)
}

// form checks or saves the text in the editor. Saved texts were checked before:
// its effect was seen.
func (s *Settings) form(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 3*maxSettings)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f := r.PostForm
	submitted := strings.ReplaceAll(f.Get("text"), "\r\n", "\n") // as forms are sent
	if submitted != "" && !strings.HasSuffix(submitted, "\n") {
		submitted += "\n"
	}
	d := &settingsData{Text: submitted, Tag: f.Get("tag"), Reason: strings.TrimSpace(f.Get("reason"))}
	status := http.StatusOK
	var err error
	if f.Get("what") == "save" && !dryRun(r.Form) && f.Get("checked") == Tag([]byte(submitted)) {
		if d.Remarks, err = s.Save(r.Context(), []byte(submitted), d.Tag, author(r), d.Reason); err == nil {
			d.Done, d.Reason = text.Mark("Saved and in use."), ""
			d.Tag = Tag([]byte(submitted))
			s.write(w, page, status, d)
			return
		}
	} else {
		err = s.fillEffect(r.Context(), d)
	}
	if err != nil {
		status = d.fail(err)
	}
	s.write(w, page, status, d)
}

// try reports the mistakes in a text, and changes nothing.
func (s *Settings) try(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 3*maxSettings)
	d := settingsData{Mistakes: []setting.Mistake{}}
	if err := s.Check(r.Context(), []byte(strings.ReplaceAll(r.FormValue("text"), "\r\n", "\n"))); err != nil {
		d.fail(err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"mistakes": d.Mistakes, "error": d.Error})
}

// fillEffect fills in the effect of a text.
func (s *Settings) fillEffect(ctx context.Context, d *settingsData) error {
	now, err := s.Read()
	if err != nil {
		return err
	}
	if Tag(now) != d.Tag {
		d.Diff = diff(string(now), d.Text)
		return ErrChanged
	}
	if err := s.Check(ctx, []byte(d.Text)); err != nil {
		return err
	}
	d.Diff = diff(string(now), d.Text)
	if len(d.Diff) == 0 {
		d.Done = text.Mark("Nothing is changed.")
		return nil
	}
	d.Checked = Tag([]byte(d.Text))
	if d.Effect, err = s.effect(ctx, Trial{Text: []byte(d.Text)}); err != nil {
		d.NoEffect = err.Error()
	}
	return nil
}

// fail shows an error and returns its status.
func (d *settingsData) fail(err error) int {
	var all setting.Mistakes
	switch {
	case errors.As(err, &all):
		d.Mistakes = all
		return http.StatusUnprocessableEntity
	case errors.Is(err, ErrChanged):
		d.Error = err.Error()
		return http.StatusPreconditionFailed
	}
	d.Error = err.Error()
	return http.StatusInternalServerError
}

// put is form for programs.
func (s *Settings) put(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSettings))
	if err != nil {
		http.Error(w, fmt.Sprintf("reading the settings, of which %d bytes are taken: %v", maxSettings, err), http.StatusRequestEntityTooLarge)
		return
	}
	q := r.URL.Query()
	tag := strings.Trim(r.Header.Get("If-Match"), `"`)
	dry := dryRun(q)
	if tag == "" && !dry {
		http.Error(w, "If-Match is missing: send the ETag of the settings that were read", http.StatusPreconditionRequired)
		return
	}
	var out struct {
		Saved    bool              `json:"saved"`
		Mistakes []setting.Mistake `json:"mistakes,omitempty"`
		Effect   *Effect           `json:"effect,omitempty"`
		Note     string            `json:"note,omitempty"`
		Remarks  []string          `json:"remarks,omitempty"`
	}
	d := &settingsData{Text: string(text), Tag: tag}
	if tag == "" {
		now, err := s.Read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		d.Tag = Tag(now)
	}
	err = s.fillEffect(r.Context(), d)
	out.Effect, out.Note = d.Effect, d.NoEffect
	if err == nil && !dry {
		out.Remarks, err = s.Save(r.Context(), text, tag, author(r), q.Get("reason"))
		out.Saved = err == nil
	}
	if err != nil {
		status := d.fail(err)
		if d.Mistakes == nil {
			http.Error(w, d.Error, status)
			return
		}
		out.Mistakes = d.Mistakes
		writeJSON(w, status, out)
		return
	}
	if out.Saved {
		w.Header().Set("ETag", `"`+Tag(text)+`"`)
	}
	writeJSON(w, http.StatusOK, out)
}

// version shows an earlier version in the editor, where it can be restored.
func (s *Settings) version(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	v, err := s.Versions.One(r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if !isPage(r) {
		writeJSON(w, http.StatusOK, v)
		return
	}
	now, err := s.Read()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	d := &settingsData{Text: v.Text, Tag: Tag(now), Diff: diff(string(now), v.Text), Of: v, Reason: "back to the version of " + v.At.Local().Format("2006-01-02 15:04")}
	s.write(w, page, http.StatusOK, d)
}

// A diffLine is a line of a comparison.
type diffLine struct {
	Kind string `json:"kind"` // "add", "del", "at" for omitted lines, "" for an unchanged one
	Text string `json:"text"`
}

const (
	around   = 3 // lines that are shown beside those that change
	maxTable = 4 << 20
)

// diff compares two texts by lines. For equal texts it returns nothing.
func diff(was, is string) []diffLine {
	if was == is {
		return nil
	}
	a, b := strings.Split(strings.TrimSuffix(was, "\n"), "\n"), strings.Split(strings.TrimSuffix(is, "\n"), "\n")
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []diffLine
	for _, l := range a[:head] {
		all = append(all, diffLine{Text: l})
	}
	all = append(all, changedLines(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, diffLine{Text: l})
	}
	return folded(all)
}

// changedLines compares changed lines by the longest common subsequence. For
// texts too long for that, all lines are removed and added.
func changedLines(a, b []string) (all []diffLine) {
	i, j := 0, 0
	if len(a)*len(b) <= maxTable {
		long := make([][]int32, len(a)+1)
		for i := range long {
			long[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					long[i][j] = long[i+1][j+1] + 1
				} else {
					long[i][j] = max(long[i+1][j], long[i][j+1])
				}
			}
		}
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				all = append(all, diffLine{Text: a[i]})
				i++
				j++
			case long[i+1][j] >= long[i][j+1]:
				all = append(all, diffLine{"del", a[i]})
				i++
			default:
				all = append(all, diffLine{"add", b[j]})
				j++
			}
		}
	}
	for _, l := range a[i:] {
		all = append(all, diffLine{"del", l})
	}
	for _, l := range b[j:] {
		all = append(all, diffLine{"add", l})
	}
	return all
}

// folded leaves out unchanged lines that are far from changed ones.
func folded(all []diffLine) (out []diffLine) {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Kind != "" {
			for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	for i := 0; i < len(all); {
		if near[i] {
			out = append(out, all[i])
			i++
			continue
		}
		n := slices.Index(near[i:], true)
		if n < 0 {
			n = len(all) - i
		}
		out = append(out, diffLine{"at", fmt.Sprintf("… %d lines", n)})
		i += n
	}
	return out
}
