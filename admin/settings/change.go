package settings

import (
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
func (s *Settings) Change(w http.ResponseWriter, r *http.Request, reason, then string, changes []setting.Change) {
	v, err := s.view(r)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	d, err := v.prepare(reason, changes)
	var real []byte
	if err == nil {
		real, err = v.fillEffect(r, d)
	}
	if err != nil {
		v.failChange(w, r, d, err)
		return
	}
	out := web.ChangeResult{Effect: d.Effect, Note: d.NoEffect}
	page, dry := web.IsPage(r), web.DryRun(r.Form)
	if page && (dry || d.Effect != nil && d.Effect.Changed > 0 || d.Effect == nil && d.NoEffect != "" && d.NoEffect != web.ErrNoRecord.Error()) {
		v.write(w, s.page, http.StatusOK, d)
		return
	}
	if !dry && d.Checked != "" { // otherwise nothing is changed
		if out.Remarks, err = v.save(r, real, reason); err != nil {
			v.failChange(w, r, d, err)
			return
		}
	}
	out.Saved = !dry
	if page {
		http.Redirect(w, r, then+map[bool]string{true: "&", false: "?"}[strings.Contains(then, "?")]+url.Values{"saved": {"yes"}}.Encode(), http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, out)
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
