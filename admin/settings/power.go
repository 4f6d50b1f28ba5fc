package settings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	who    *account.Who
	files  []string // that the settings of the user name
}

// view returns the settings in the form for the user of a request.
func (s *Settings) view(r *http.Request) (*view, error) {
	now, err := s.Read()
	if err != nil {
		return nil, err
	}
	v := &view{s: s, now: now, shown: now, who: web.UserOf(r)}
	v.owner = s.Empty == nil || v.who.Role >= account.Owner
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
// may not make: of keys that are an owner's, and of paths.
func (v *view) real(text []byte) ([]byte, error) {
	if v.s.Empty == nil || v.who.Via == "machine" {
		return text, nil // who may write the file itself may do this too
	}
	was, is := v.s.Empty(), v.s.Empty()
	if at := setting.NewSecretPlace(v.now, text, is); at != "" { // before anything reads it
		return nil, &web.Forbidden{Key: at, Err: errors.New("it names the place of a secret: an owner can name it on the gateway's machine, in the file itself")}
	}
	if v.owner {
		if _, err := setting.Read(v.s.File, text, is); err != nil {
			return text, nil //nolint:nilerr // the check names the mistakes
		}
		if _, err := setting.Read(v.s.File, v.now, was); err != nil {
			return text, nil //nolint:nilerr // the present settings have mistakes: any change may mend them
		}
		return text, v.paths(was, is)
	}
	real, err := v.hidden.Restore(text)
	var at *setting.Error
	if errors.As(err, &at) {
		return nil, &web.Forbidden{Key: at.Key, Err: at.Err}
	}
	if err != nil {
		return nil, &web.Forbidden{Key: "settings", Err: err}
	}
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
	return real, v.paths(was, is)
}

// paths refuses paths that a user may not name: for everyone elsewhere, those outside the folders of
// the gateway, and for others than owners also those that the gateway keeps for itself. Paths that
// the present settings have may stay.
func (v *view) paths(was, is any) (err error) {
	if v.s.Paths == nil {
		return nil
	}
	known := v.s.Paths(was)
	v.files = v.s.Paths(is)
	for _, path := range v.files {
		switch {
		case slices.Contains(known, path):
		case !v.s.Inside(path):
			return &web.Forbidden{Key: path, Err: errors.New("it is outside the folder of the settings: an owner can name it on the gateway's machine, in the file itself")}
		case !v.owner && v.s.Own(path):
			return &web.Forbidden{Key: path}
		}
	}
	return nil
}

// withoutLines returns an error without the lines of files that it quotes. Which line it is, stays.
func (v *view) withoutLines(text string) string {
	for _, path := range v.files {
		at := strings.Index(text, path)
		if at < 0 {
			continue
		}
		at += len(path)
		return text[:at] + setting.WithoutQuotes(text[at:])
	}
	return text
}

// second asks for a second person if a text changes who sees people's browsing.
func (v *view) second(r *http.Request, real []byte) error {
	if v.s.Empty == nil || v.s.site == nil || !v.s.site.NeedsTwo() {
		return nil
	}
	was, is := v.s.Empty(), v.s.Empty()
	if _, err := setting.Read(v.s.File, real, is); err != nil {
		return err
	}
	var before map[string]string // all is new if the present settings cannot be read
	if _, err := setting.Read(v.s.File, v.now, was); err == nil {
		before = setting.ForTwo(was)
	}
	after := setting.ForTwo(is)
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(keys)
	var changed []string
	for _, key := range slices.Compact(keys) {
		if before[key] != after[key] {
			changed = append(changed, key)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return v.s.site.Second(r, strings.Join(changed, ", "), setting.Digest(after))
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
			all[i].Text = v.withoutLines(v.hidden.Redact(all[i].Text))
		}
		return all
	case v.withoutLines(v.hidden.Redact(err.Error())) != err.Error():
		return errors.New(v.withoutLines(v.hidden.Redact(err.Error())))
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
	if err := v.second(r, real); err != nil {
		return nil, err
	}
	remarks, err := v.s.Save(r.Context(), real, web.Tag(v.now), web.Author(r), reason)
	if !v.owner {
		remarks = slices.Clone(remarks)
		for i := range remarks {
			remarks[i] = v.withoutLines(v.hidden.Redact(remarks[i]))
		}
	}
	return remarks, v.redact(err)
}
