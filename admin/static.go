package admin

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"shuultuur/message"
	"shuultuur/policy"
	"shuultuur/text"
)

// packed has the pages and all that they load: style sheets, scripts and the icon.
// "go run ./admin/pack" makes it.
//
//go:embed pages.zip
var packed string

// packedFiles has the files of packed by name. The pages are a ZIP file within it, which is
// compressed as a whole: they have much in common.
var packedFiles = sync.OnceValue(func() map[string]*zip.File {
	all := map[string]*zip.File{}
	open := func(text string) {
		z, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
		if err != nil {
			panic(err) // a test reads them all
		}
		for _, f := range z.File {
			all[f.Name] = f
		}
	}
	open(packed)
	pages, err := unzipped(all["html.zip"])
	if err != nil {
		panic(err)
	}
	delete(all, "html.zip")
	open(string(pages))
	return all
})

// readPacked returns a file of packed.
func readPacked(name string) ([]byte, error) {
	f := packedFiles()[name]
	if f == nil {
		return nil, fmt.Errorf("pages.zip: %s: %w", name, fs.ErrNotExist)
	}
	return unzipped(f)
}

func unzipped(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// gzipped returns a file of packed as a gzip stream (RFC 1952). It wraps the compressed bytes
// that the ZIP file has.
func gzipped(f *zip.File) ([]byte, error) {
	r, err := f.OpenRaw()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.MultiReader(strings.NewReader("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), r))
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, f.CRC32), uint32(f.UncompressedSize64)), err
}

// An asset is a file that pages load.
type asset struct {
	// at is its address. The address contains a digest, so that browsers may cache the file for
	// ever and never show a new page in an old style.
	at            string
	plain, zipped []byte
}

var assets = sync.OnceValues(func() (map[string]asset, error) {
	all := map[string]asset{}
	for name, f := range packedFiles() {
		if path.Ext(name) == ".html" {
			continue
		}
		plain, err := readPacked(name)
		if err != nil {
			return nil, err
		}
		zipped, err := gzipped(f)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(plain)
		all[name] = asset{"/static/" + hex.EncodeToString(sum[:8]) + "/" + name, plain, zipped}
	}
	return all, nil
})

// assetAt returns the address of an asset.
func assetAt(name string) (string, error) {
	all, err := assets()
	if err == nil && all[name].at == "" {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return all[name].at, err
}

// staticFile serves an asset. If the address has another digest, it serves the asset uncached.
func staticFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	all, err := assets()
	a, ok := all[name]
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	keep := "no-cache"
	if r.URL.Path == a.at {
		keep = "public, max-age=31536000, immutable"
	}
	h, b, tag := w.Header(), a.plain, path.Base(path.Dir(a.at))
	if message.AcceptsGzip([]byte(strings.Join(r.Header["Accept-Encoding"], ","))) {
		b, tag = a.zipped, tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", keep)
	h.Set("ETag", `"`+tag+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}

// A pageTemplate is a page in every language.
type pageTemplate = *text.Page[*template.Template]

// A noticeFunc returns a notice for all pages, in the language of t; noNotice
// returns none.
type noticeFunc func(t *text.Texts) string

func noNotice(*text.Texts) string { return "" }

// translateLine names the settings of a line such as "category: games", or "a day: time 1h,
// over 50", in the language of t.
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
	return name(key) + ": " + t.Message(value)
}

// inPlace has the attributes for htmx of an element with links and forms about one site: the
// dialog of the page shows what the links lead to, and the element "said" shows what was done.
const inPlace = `hx-target:inherited="#asked" hx-select:inherited="#ruling, #effect, p.say" hx-select-oob:inherited="#said:innerHTML" hx-swap:inherited="innerHTML show:none"`

// pageFuncs returns the functions for all pages. notice returns the notice, and t translates a
// word that is a value. Pages call no methods: a template that could call any would keep all
// methods of the program in the binary.
func pageFuncs(t *text.Texts, notice noticeFunc) template.FuncMap {
	all := template.FuncMap{
		"t":       func(key any) string { return t.Message(t.Say(fmt.Sprint(key))) },
		"said":    func(line string) string { return translateLine(t, line) },
		"notice":  func() string { return notice(t) },
		"links":   navMark,
		"static":  assetAt,
		"inPlace": func() template.HTMLAttr { return inPlace },
		"time":    clock,
		"left":    func(until time.Time) string { return time.Until(until).Round(time.Second).String() },
		"client":  eventRow.client, "what": eventRow.label, "refused": eventRow.refused,
		"why":        func(s eventRow) string { return s.Why() },
		"whom":       policy.Pause.Whom,
		"among":      slices.Contains[[]string],
		"effect":     func(e *Effect) string { return e.describe(t) },
		"others":     List.otherEntries,
		"arrived":    FetchProgress.percent,
		"categories": List.categories,
		"add":        func(a, b int) int { return a + b },
		"neg":        func(a int) int { return -a },
		"rows":       func(rule string) int { return min(strings.Count(rule, "\n")+1, 20) },
		"dayname":    func(d int) string { return t.Say([...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[d%7]) },
		"hour":       func(minute int) string { return fmt.Sprintf("%d:%02d", minute/60, minute%60) },
		"figures":    figure.shown,
		"brief":      briefTime,
		"nanos":      func(n int64) string { return briefTime(time.Duration(n)) },
		"took":       Upstream.took,
		"thousand":   func(f float64) float64 { return 1000 * f },
		"number":     number,
		"bytes":      size,
		"lines":      func(all string) []string { return strings.Split(all, "; ") },
		"percent": func(share any) float64 {
			f, _ := share.(float64)
			return 100 * f
		},
	}
	maps.Copy(all, alertFuncs(t))
	return all
}

// clock writes a time of this machine's zone in a layout of package time; the
// zero time is "".
func clock(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(layout)
}

// wholeNumber returns v as a number.
func wholeNumber(v any) int64 {
	r := reflect.Indirect(reflect.ValueOf(v))
	switch {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return int64(r.Uint())
	case r.CanFloat():
		return int64(r.Float())
	}
	return 0
}

// number writes a number with thin spaces between thousands.
func number(v any) string {
	n := wholeNumber(v)
	if n < 0 {
		return "-" + number(-n)
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// size writes a number of bytes in a form for people.
func size(v any) string {
	f := float64(wholeNumber(v))
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if f < 1024 {
			if unit == "B" || f >= 100 {
				return fmt.Sprintf("%.0f %s", f, unit)
			}
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.1f TiB", f)
}

// equalSecrets compares secrets in constant time.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return b != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
