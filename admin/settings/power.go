package settings

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
)

// A view is the settings as a user sees them.
type view struct {
	s      *Settings
	now    []byte          // the text on disk
	shown  []byte          // the text for the user
	hidden *setting.Hidden // nil: the user sees everything
	owner  bool
}

// view returns the settings in the form for the user of a request.
func (s *Settings) view(r *http.Request) (*view, error) {
	now, err := s.Read()
	if err != nil {
		return nil, err
	}
	v := &view{s: s, now: now, shown: now, owner: s.Empty == nil || web.UserOf(r).Role >= account.Owner}
	if v.owner {
		return v, nil
	}
	if v.hidden, err = setting.Hide(now, s.Empty(), s.Key); err != nil {
		return nil, &web.Forbidden{Key: "settings", Err: err}
	}
	v.shown = v.hidden.Text
	return v, nil
}

// hide returns another text of settings in the form for the user.
func (v *view) hide(text []byte) ([]byte, error) {
	if v.owner {
		return text, nil
	}
	h, err := setting.Hide(text, v.s.Empty(), v.s.Key)
	if err != nil {
		return nil, &web.Forbidden{Key: "settings", Err: err}
	}
	return h.Text, nil
}

// tag returns the entity tag of a text for the user. For others than owners it does not tell anything
// about the secrets in the text.
func (v *view) tag(text []byte) string { return v.tagOf(web.Tag(text)) }

func (v *view) tagOf(tag string) string {
	if v.owner || tag == "" {
		return tag
	}
	m := hmac.New(sha256.New, append([]byte("tag of the settings"), v.s.Key...))
	m.Write([]byte(tag))
	return hex.EncodeToString(m.Sum(nil)[:12])
}

// real returns the text to save for one that the user has written. It refuses changes that the user
// may not make.
func (v *view) real(text []byte) ([]byte, error) {
	if v.owner {
		return text, nil
	}
	real, err := v.hidden.Restore(text)
	var at *setting.Error
	if errors.As(err, &at) {
		return nil, &web.Forbidden{Key: at.Key, Err: at.Err}
	}
	if err != nil {
		return nil, &web.Forbidden{Key: "settings", Err: err}
	}
	was, is := v.s.Empty(), v.s.Empty()
	if _, err := setting.Read(v.s.File, real, is); err != nil {
		return nil, err
	}
	if _, err := setting.Read(v.s.File, v.now, was); err != nil {
		return nil, &web.Forbidden{Key: "settings", Err: fmt.Errorf("the present settings have mistakes: %w", err)}
	}
	before, after := setting.Powers(was, account.Owner.String()), setting.Powers(is, account.Owner.String())
	keys := slices.Sorted(maps.Keys(before))
	keys = append(keys, slices.Sorted(maps.Keys(after))...)
	for _, key := range keys {
		if before[key] != after[key] {
			return nil, &web.Forbidden{Key: key}
		}
	}
	if v.s.Own == nil {
		return real, nil
	}
	known := map[string]bool{}
	setting.Move(was, func(path string) string { known[path] = true; return path })
	setting.Move(is, func(path string) string {
		if !known[path] && v.s.Own(path) {
			err = cmp.Or(err, error(&web.Forbidden{Key: path}))
		}
		return path
	})
	return real, err
}

// redact returns an error without the secrets that the user may not see.
func (v *view) redact(err error) error {
	var all setting.Mistakes
	switch {
	case v.owner || err == nil || errors.Is(err, web.ErrChanged):
		return err
	case errors.As(err, &all):
		all = slices.Clone(all)
		for i := range all {
			all[i].Text = v.hidden.Redact(all[i].Text)
		}
		return all
	case v.hidden.Redact(err.Error()) != err.Error():
		return errors.New(v.hidden.Redact(err.Error()))
	}
	return err
}

// check is Check for the text of a user.
func (v *view) check(r *http.Request, text []byte) ([]byte, error) {
	real, err := v.real(text)
	if err == nil {
		err = v.s.Check(r.Context(), real)
	}
	return real, v.redact(err)
}

// save is Save for the text of a user that check has returned.
func (v *view) save(r *http.Request, real []byte, reason string) ([]string, error) {
	remarks, err := v.s.Save(r.Context(), real, web.Tag(v.now), web.Author(r), reason)
	if !v.owner {
		remarks = slices.Clone(remarks)
		for i := range remarks {
			remarks[i] = v.hidden.Redact(remarks[i])
		}
	}
	return remarks, v.redact(err)
}
