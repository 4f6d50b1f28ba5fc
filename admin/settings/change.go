package settings

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
)

// prepare is the text of the settings with some changes, as the editor has it.
func (v *view) prepare(reason string, changes []setting.Change) (*settingsData, error) {
	text, err := setting.Edit(v.shown, changes...)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	return &settingsData{Text: string(text), Tag: v.tag(v.now), Reason: reason}, nil
}

// Change makes changes to the settings for a page, and then redirects to the
// page. A change without effect on the last day is saved at once. For others, the
// editor first shows the effect, with a button to save; programs receive the
// effect.
//
// It asks what to change after it has read the text: an answer names places in lists as the
// settings in use have them, which would be other ones in a text that somebody else has saved
// meanwhile. It returns the error of the answer, which the page shows.
func (s *Settings) Change(w http.ResponseWriter, r *http.Request, then string, what func() (reason string, changes []setting.Change, err error)) error {
	v, err := s.view(r)
	if err == nil && !bytes.Equal(v.inUse(), v.now) {
		http.Error(w, errNotInUse.Error(), http.StatusPreconditionFailed)
		return nil
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return nil
	}
	reason, changes, err := what()
	if err != nil {
		return err
	}
	v.change(w, r, reason, then, changes)
	return nil
}

// A Draft is a change of the settings that is checked and not saved.
type Draft struct {
	Text []byte // of the settings with the change
	// Save saves it and puts it into use.
	Save func() error
}

// Draft prepares changes of the settings for a page that shows their effect itself.
func (s *Settings) Draft(r *http.Request, reason string, changes []setting.Change) (*Draft, error) {
	v, err := s.view(r)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(v.inUse(), v.now) {
		return nil, &web.BadChange{Err: errNotInUse}
	}
	d, err := v.prepare(reason, changes)
	if err != nil {
		return nil, err
	}
	real, err := v.check(r, []byte(d.Text))
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	return &Draft{Text: real, Save: func() error {
		_, err := v.save(r, real, reason)
		return err
	}}, nil
}

// inUse returns the text that the gateway runs with.
func (v *view) inUse() []byte {
	if v.s.InUse == nil {
		return v.now
	}
	return v.s.InUse()
}

// errNotInUse reports that what a page knows is not what the text on disk says.
var errNotInUse = errors.New("the settings on the disk were changed meanwhile; read them again, so that no change is lost")

// change makes changes of the text that was read.
func (v *view) change(w http.ResponseWriter, r *http.Request, reason, then string, changes []setting.Change) {
	d, err := v.prepare(reason, changes)
	var out web.ChangeResult
	var shown bool
	if err == nil {
		out, shown, err = v.use(w, r, d)
	}
	switch {
	case err != nil:
		v.failChange(w, r, d, err)
	case shown:
	case web.IsPage(r):
		http.Redirect(w, r, then+map[bool]string{true: "&", false: "?"}[strings.Contains(then, "?")]+url.Values{"saved": {"yes"}}.Encode(), http.StatusSeeOther)
	default:
		web.WriteJSON(w, http.StatusOK, out)
	}
}

// use saves a text that a page has changed, unless a browser has to see its effect first: then the
// editor shows that, and shown says so.
func (v *view) use(w http.ResponseWriter, r *http.Request, d *settingsData) (out web.ChangeResult, shown bool, err error) {
	real, err := v.fillEffect(r, d)
	if err != nil {
		return out, false, err
	}
	out = web.ChangeResult{Effect: d.Effect, Note: d.NoEffect}
	page, dry := web.IsPage(r), web.DryRun(r.Form)
	if page && (dry || d.Effect != nil && d.Effect.Changed > 0 || d.Effect == nil && d.NoEffect != "" && d.NoEffect != web.ErrNoRecord.Error()) {
		v.write(w, v.s.page, http.StatusOK, d)
		return out, true, nil
	}
	if !dry && d.Checked != "" { // otherwise nothing is changed
		if out.Remarks, err = v.save(r, real, d.Reason); err != nil {
			return out, false, err
		}
	}
	out.Saved = !dry
	return out, false, nil
}

func (v *view) failChange(w http.ResponseWriter, r *http.Request, d *settingsData, err error) {
	if d == nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	status := d.fail(err)
	switch {
	case web.IsPage(r):
		v.write(w, v.s.page, status, d)
	case d.Mistakes != nil:
		web.WriteJSON(w, status, web.ChangeResult{Mistakes: d.Mistakes})
	default:
		http.Error(w, d.Error, status)
	}
}

// RulesOf returns the rules of a policy as the pages show them; nil if there are none, or they
// cannot be read.
func (s *Settings) RulesOf(name string) any {
	if s == nil || s.Policies == nil {
		return nil
	}
	all, _ := s.Policies() // without them, the page has the rest
	for i := range all {
		if all[i].Name == name && len(all[i].Rules) > 0 {
			return all[i].Rules
		}
	}
	return nil
}
