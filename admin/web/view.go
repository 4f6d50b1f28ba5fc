package web

import (
	"cmp"
	"net/http"
	"strings"
)

// A View is how a person wants to see the pages: a theme, "" for that of the system, and a language,
// "" for that of the browser.
type View struct{ Theme, Lang string }

// ViewPath is where a person chooses a [View].
const ViewPath = "/view"

// viewCookie has the view, as theme and language with a dot between them.
const viewCookie = "shuultuur-view"

// viewOf returns the view that a browser has kept.
func viewOf(r *http.Request) View {
	c, err := r.Cookie(viewCookie)
	if err != nil {
		return View{}
	}
	theme, lang, _ := strings.Cut(c.Value, ".")
	return View{theme, lang}.known()
}

// known returns the parts of v that there are.
func (v View) known() View {
	if v.Theme != "light" && v.Theme != "dark" {
		v.Theme = ""
	}
	if languages[v.Lang] == "" {
		v.Lang = ""
	}
	return v
}

// next returns the theme that follows in the order of the switch.
func (v View) next() string {
	return map[string]string{"": "light", "light": "dark", "dark": "system"}[v.Theme]
}

// languages are the names of languages by their tags, as those who speak them write them.
var languages = map[string]string{
	"ar": "العربية", "de": "Deutsch", "en": "English", "es": "Español", "fa": "فارسی", "fr": "Français", "kk": "Қазақша", "mn": "Монгол",
	"ru": "Русский", "tr": "Türkçe", "uz-Cyrl": "Ўзбекча", "uz-Latn": "Oʻzbekcha",
}

// A Language is one that pages can be in.
type Language struct{ Tag, Name string }

// Languages returns the languages of the pages, by their tags.
func (s *Site) Languages() (all []Language) {
	for _, tag := range []string{"en", "ar", "de", "es", "fa", "fr", "kk", "mn", "ru", "tr", "uz-Cyrl", "uz-Latn"} {
		if t := s.Texts.For(tag); t == nil && tag == "en" || t != nil && t.Lang == tag {
			all = append(all, Language{tag, languages[tag]})
		}
	}
	return all
}

// SetView keeps the view of a form and returns to the page that it is on. The form may choose only
// one part of it; "system" and "browser" are the choices of none.
func SetView(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v := viewOf(r)
	v.Theme, v.Lang = cmp.Or(r.PostForm.Get("theme"), v.Theme), cmp.Or(r.PostForm.Get("lang"), v.Lang)
	v = v.known()
	http.SetCookie(w, &http.Cookie{Name: viewCookie, Value: v.Theme + "." + v.Lang, Path: "/", MaxAge: 365 * 86400, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, LocalPath(r.PostForm.Get("to")), http.StatusSeeOther)
}

// LocalPath returns the path on this address to which a user goes on; "/" for any other.
func LocalPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") || strings.HasPrefix(to, "/login") || strings.HasPrefix(to, "/logout") {
		return "/"
	}
	return to
}

// Back is the field of a form with the page that a browser sees after the change.
var Back = Optional("back", "path of the page that a browser sees afterwards")

// BackTo returns the page that a form was on, or another if it does not say.
func BackTo(r *http.Request, other string) string {
	if to := r.PostForm.Get("back"); to != "" {
		return LocalPath(to)
	}
	return other
}

// GoBack leads a browser to the page that a form was on. It returns false if the form does not say.
func GoBack(w http.ResponseWriter, r *http.Request) bool {
	to := BackTo(r, "")
	if to == "" || !IsPage(r) {
		return false
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return true
}
