package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"shuultuur/text"
)

// WriteJSON answers with v, which nobody may store.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // it fails if the client has gone away
}

// PageOf prepares a page. All pages have the same style, link to one another, and show the
// notice.
func PageOf(name string, notice noticeFunc) PageTemplate {
	source := func() string {
		var all []byte
		for _, name := range []string{name, "head.html"} {
			b, err := readPacked(name)
			if err != nil {
				panic(err) // a test makes all pages
			}
			all = append(all, b...)
		}
		return string(all)
	}
	return text.NewPage(source, func(t *text.Texts, source string) *template.Template {
		return template.Must(template.New("page").Funcs(pageFuncs(t, notice)).Parse(source))
	})
}

// pagePolicy lets a page load files of static and send forms here, but run no
// inline scripts.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Respond answers browsers with a page, and programs with the JSON of value, or with mistake
// unless it is "".
func Respond(w http.ResponseWriter, r *http.Request, page PageTemplate, status int, data, value any, wrong string) {
	switch {
	case IsPage(r):
		WritePage(w, page, status, data)
	case wrong != "":
		http.Error(w, wrong, status)
	default:
		WriteJSON(w, status, value)
	}
}

// WritePage answers with a page that may hold forms and no script of its own.
func WritePage(w http.ResponseWriter, page PageTemplate, status int, data any) {
	var b bytes.Buffer
	if err := page.In(TextsOf(w)).Execute(&b, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = w.Write(insertFrame(w, b.Bytes())) // it fails if the client has gone away
}

// A PageTemplate is a page in every language.
type PageTemplate = *text.Page[*template.Template]

// A noticeFunc returns a notice for all pages, in the language of t.
type noticeFunc func(t *text.Texts) string

// NoNotice returns none.
func NoNotice(*text.Texts) string { return "" }

// translateLine names the settings of a line such as "category: games", "decrypt: true", or "a day:
// time 1h, over 50", in the language of t.
func translateLine(t *text.Texts, line string) string {
	name := func(key string) string {
		set := "set." + strings.NewReplacer("-", "", " ", "").Replace(key)
		if translated := t.Say(set); translated != set {
			return translated
		}
		return key
	}
	key, value, ok := strings.Cut(line, ": ")
	if !ok {
		return line
	}
	if key == "a day" || key == "schedule" || key == "limits" {
		parts := strings.Split(value, ", ")
		for i, p := range parts {
			if first, rest, ok := strings.Cut(p, " "); ok {
				parts[i] = name(first) + " " + rest
			}
		}
		value = strings.Join(parts, ", ")
	}
	switch value {
	case "true":
		value = t.Say("on")
	case "false":
		value = t.Say("off")
	}
	return name(key) + ": " + t.Message(value)
}

// inPlace has the attributes for htmx of an element with links and forms about one site: the
// dialog of the page shows what the links lead to, and the element "said" shows what was done.
const inPlace = `hx-target:inherited="#asked" hx-select:inherited="#ruling, #effect, p.say" hx-select-oob:inherited="#said:innerHTML" hx-swap:inherited="innerHTML show:none"`

// pageFuncs returns the functions for all pages. notice returns the notice, and t translates a
// word that is a value.
func pageFuncs(t *text.Texts, notice noticeFunc) template.FuncMap {
	return template.FuncMap{
		"t":        func(key any) string { return t.Message(t.Say(fmt.Sprint(key))) },
		"title":    func(x interface{ Title(t *text.Texts) string }) string { return x.Title(t) },
		"said":     func(line string) string { return translateLine(t, line) },
		"notice":   func() string { return notice(t) },
		"menu":     markOf(menuBegin),
		"tabs":     markOf(tabsBegin),
		"icon":     iconAt,
		"letter":   letterOf,
		"hue":      hueOf,
		"static":   assetAt,
		"inPlace":  func() template.HTMLAttr { return inPlace },
		"time":     Clock,
		"left":     func(until time.Time) string { return time.Until(until).Round(time.Second).String() },
		"among":    slices.Contains[[]string],
		"effect":   func(e *Effect) string { return e.describe(t) },
		"odd":      func(i int) bool { return i%2 == 1 },
		"add":      func(a, b int) int { return a + b },
		"neg":      func(a int) int { return -a },
		"rows":     func(rule string) int { return min(strings.Count(rule, "\n")+1, 20) },
		"dayname":  func(d int) string { return t.Say([...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[d%7]) },
		"hour":     func(minute int) string { return fmt.Sprintf("%d:%02d", minute/60, minute%60) },
		"brief":    BriefTime,
		"ago":      func(at time.Time) string { return ago(t, at) },
		"nanos":    func(n int64) string { return BriefTime(time.Duration(n)) },
		"thousand": func(f float64) float64 { return 1000 * f },
		"number":   number,
		"bytes":    size,
		"lines":    func(all string) []string { return strings.Split(all, "; ") },
		"percent": func(share any) float64 {
			f, _ := share.(float64)
			return 100 * f
		},
	}
}

// IsPage reports whether a request comes from a browser that wants a page, not JSON.
func IsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Answer answers with all as JSON, or with 503 and the reason.
func Answer[T any](w http.ResponseWriter, all []T, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	WriteJSON(w, http.StatusOK, append([]T{}, all...)) // [] in JSON, not null
}
