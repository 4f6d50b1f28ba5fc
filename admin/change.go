package admin

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"shuultuur/setting"
)

// A changeResult is the result of a change of the settings made by a page.
type changeResult struct {
	Saved    bool              `json:"saved"`
	Mistakes []setting.Mistake `json:"mistakes,omitempty"`
	Effect   *Effect           `json:"effect,omitempty"`
	Note     string            `json:"note,omitempty"` // why the effect is not known
	Remarks  []string          `json:"remarks,omitempty"`
}

// prepare is the text of the settings with some changes, as the editor has it.
func (s *Settings) prepare(reason string, changes []setting.Change) (*settingsData, error) {
	now, err := s.Read()
	if err != nil {
		return nil, err
	}
	text, err := setting.Edit(now, changes...)
	if err != nil {
		return nil, &BadChange{err}
	}
	return &settingsData{Text: string(text), Tag: Tag(now), Reason: reason}, nil
}

// change makes changes to the settings for a page, and then redirects to the
// page. A change without effect on the last day is saved at once. For others, the
// editor first shows the effect, with a button to save; programs receive the
// effect.
func (s *Settings) change(w http.ResponseWriter, r *http.Request, reason, then string, changes []setting.Change) {
	d, err := s.prepare(reason, changes)
	if err == nil {
		err = s.fillEffect(r.Context(), d)
	}
	if err != nil {
		s.failChange(w, r, d, err)
		return
	}
	out := changeResult{Effect: d.Effect, Note: d.NoEffect}
	page, dry := isPage(r), dryRun(r.Form)
	if page && (dry || d.Effect != nil && d.Effect.Changed > 0 || d.Effect == nil && d.NoEffect != "" && d.NoEffect != ErrNoRecord.Error()) {
		s.write(w, s.page, http.StatusOK, d)
		return
	}
	if !dry && d.Checked != "" { // otherwise nothing is changed
		if out.Remarks, err = s.Save(r.Context(), []byte(d.Text), d.Tag, author(r), reason); err != nil {
			s.failChange(w, r, d, err)
			return
		}
	}
	out.Saved = !dry
	if page {
		http.Redirect(w, r, then+map[bool]string{true: "&", false: "?"}[strings.Contains(then, "?")]+url.Values{"saved": {"yes"}}.Encode(), http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Settings) failChange(w http.ResponseWriter, r *http.Request, d *settingsData, err error) {
	if d == nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	status := d.fail(err)
	switch {
	case isPage(r):
		s.write(w, s.page, status, d)
	case d.Mistakes != nil:
		writeJSON(w, status, changeResult{Mistakes: d.Mistakes})
	default:
		http.Error(w, d.Error, status)
	}
}

// policies returns the policies in use, or none if they cannot be read.
func (s *Settings) policies(context.Context) []PolicyView {
	if s == nil || s.Policies == nil {
		return nil
	}
	all, err := s.Policies()
	if err != nil {
		return nil
	}
	return all
}
