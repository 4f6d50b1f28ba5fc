package e2guardian

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// An option is a line name = 'value' of e2guardian's settings.
type option struct {
	name, value string
	report.Place
	before []option // earlier lines of the same name that count, too
}

// every returns the lines of an option that count, in their order.
func (o option) every() []option {
	if o.name == "" {
		return nil
	}
	return append(o.before, o)
}

// several names the options of which every line counts; of the others the last line counts.
var several = []string{"filterip", "filterports", "authplugin", "contentscanner", "downloadmanager", "checkip",
	"weightedphraselist", "bannedphraselist", "exceptionphraselist"}

// A ref is a list named in the settings: by type and name in e2guardian 5, by a separate option
// for each list in earlier versions.
type ref struct {
	typ  string // site, ipsite, url, regexp, replace, extension, type, search, ip, time, ipmap, map
	name string // banned, exception, grey, localbanned, …
	path string
	report.Place
}

// folder is the import of an e2guardian or DansGuardian folder.
type folder struct {
	w       *build.Work
	dir     string            // of the main settings
	files   int               // settings files that were read
	byPath  map[string]string // name of the list made from a file; "" for an empty one
	listDir string            // the value of __LISTDIR__
	version string            // "5.3.5", if the files say so
	typed   bool              // settings name lists by type, as of version 5
	indexes map[string]*build.Index
	blanket map[string][]report.Place // "**" and "*ip" by name of the list
	cut     bool                      // the root was converted or made
	upload  []policy.Rule             // those that limit what clients send, of the main file or of the current group
	lines   []option                  // all options read
	opts    map[string]option         // those of the file with the current option

	short      map[string]bool // lists of which a part is not there
	incomplete bool            // something that refuses of the current group, or of all
	strangers  bool            // it is not known who is in which group
}

var versionText = regexp.MustCompile(`(?i)version (\d+\.\d+(?:\.\d+)?)`)

// conf reads a settings file and its includes.
func (c *folder) conf(path string, depth int) ([]option, error) {
	if c.files++; c.files > input.MaxFiles || depth > input.MaxDepth {
		return nil, fmt.Errorf("%s: too many settings files include each other", path)
	}
	data, err := input.Text(path)
	if err != nil {
		return nil, err
	}
	if m := versionText.FindSubmatch(data[:min(len(data), 4096)]); m != nil && c.version == "" {
		c.version = string(m[1])
	}
	var all []option
	err = input.EachLine(path, bytes.NewReader(data), func(n int, s []byte) error {
		at := report.Place{File: path, Line: n, Text: string(s)}
		if name, ok := includes(s); ok {
			to, found := c.locate(name, filepath.Dir(path))
			if !found {
				c.refuses(at, at.Text, "the file is not there: copy it beside the settings and import again")
				return nil
			}
			more, err := c.conf(to, depth+1)
			all = append(all, more...)
			return err
		}
		if rest, ok := bytes.CutPrefix(s, []byte(".Define ")); ok {
			name, value, _ := strings.Cut(string(rest), "<")
			if strings.TrimSpace(name) == "LISTDIR" {
				c.listDir = strings.TrimSuffix(strings.TrimSpace(value), ">")
			}
			return nil
		}
		if s[0] == '#' {
			return nil
		}
		name, value, ok := strings.Cut(string(s), "=")
		if !ok {
			c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: at.Text, Why: "neither an option nor a comment, so it has no effect"})
			return nil
		}
		if len(c.lines) == maxOptions {
			return fmt.Errorf("%s: there are more than %d options", at, maxOptions)
		}
		o := option{name: strings.ToLower(strings.TrimSpace(name)), value: unquote(value), Place: at}
		all, c.lines = append(all, o), append(c.lines, o)
		return nil
	})
	return all, err
}

// unquote cuts a value out of its quotes, or from the comment behind it.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "'"); ok {
		s, _, _ = strings.Cut(rest, "'")
		return s
	}
	s, _, _ = strings.Cut(s, "#")
	return strings.TrimSpace(s)
}

// typedLists are the list options of e2guardian 5.
var typedLists = map[string]string{
	"sitelist": "site", "ipsitelist": "ipsite", "urllist": "url", "regexpboollist": "regexp", "regexpreplacelist": "replace",
	"fileextlist": "extension", "mimelist": "type", "searchlist": "search", "iplist": "ip", "timelist": "time",
	"ipmaplist": "ipmap", "maplist": "map", "categorylist": "category",
}

// plainLists has the options for lists in DansGuardian and in e2guardian before 5: how the
// option ends, in the order of comparison, and what the list contains.
var plainLists = []struct{ end, typ, name string }{
	{"regexpurllist", "regexp", ""}, {"regexpheaderlist", "regexp", "header"}, {"regexpuseragentlist", "regexp", "useragent"},
	{"sslsitelist", "site", "ssl"}, {"sslsiteiplist", "ipsite", "ssl"}, {"filesitelist", "site", "file"}, {"fileurllist", "url", "file"},
	{"siteiplist", "ipsite", ""}, {"sitelist", "site", ""}, {"urllist", "url", ""}, {"extensionlist", "extension", "extension"},
	{"mimetypelist", "type", "mime"}, {"searchlist", "search", ""},
}

var plainNames = map[string]ref{
	"urlregexplist": {typ: "replace", name: "change"}, "urlredirectregexplist": {typ: "replace", name: "redirect"},
	"headerregexplist": {typ: "replace", name: "headermods"}, "addheaderregexplist": {typ: "replace", name: "addheader"},
	"sslsiteregexplist": {typ: "replace", name: "sslreplace"}, "searchregexplist": {typ: "replace", name: "searchterms"},
	"bannedsearchoveridelist": {typ: "search", name: "override"}, "nocheckcertsitelist": {typ: "site", name: "nocheckcert"},
	"contentregexplist": {typ: "replace", name: "content"},
	"bannediplist":      {typ: "ip", name: "bannedclient"}, "exceptioniplist": {typ: "ip", name: "exceptionclient"},
}

// list interprets an option that names a list.
func (c *folder) list(o option) (r ref, is, ok bool) {
	r.Place = o.Place
	if typ, typed := typedLists[o.name]; typed {
		c.typed = true
		r.typ = typ
		dir := ""
		for _, part := range strings.Split(o.value, ",") {
			key, value, _ := strings.Cut(part, "=")
			switch strings.TrimSpace(key) {
			case "name":
				r.name = strings.ToLower(strings.TrimSpace(value))
			case "path":
				r.path = strings.TrimSpace(value)
			case "listdir":
				dir = strings.TrimSpace(value)
			}
		}
		if r.path != "" && dir != "" && !filepath.IsAbs(r.path) {
			r.path = filepath.Join(dir, r.path)
		}
	} else if known, plain := plainNames[o.name]; plain {
		r.typ, r.name, r.path = known.typ, known.name, o.value
	} else {
		for _, l := range plainLists {
			if begin, found := strings.CutSuffix(o.name, l.end); found && begin != "" {
				r.typ, r.name, r.path = l.typ, begin+l.name, o.value
				break
			}
		}
		if r.typ == "" {
			return r, false, false
		}
	}
	path, found := c.locate(r.path, c.dir)
	if r.path == "" || !found {
		n := report.None(fmt.Sprintf("the list file %q is not there", r.path))
		n.Place, n.What = o.Place, o.Text
		if r.isBan() {
			n = refusesMore(n)
		}
		c.w.Report.Add(n)
		r.typ = missing
		return r, true, false
	}
	r.path = path
	return r, true, true
}

// missing is the type of lists whose files are not there.
const missing = "missing"

// isBan reports whether what is in a list is refused.
func (r ref) isBan() bool { return strings.Contains(r.name, "banned") || r.name == "blankettimes" }

// refusesMore completes the note on something that refuses and cannot be carried over.
func refusesMore(n *report.Note) *report.Note {
	n.Ours, n.Why = "rules \"what is not known\"", n.Why+"; until then all is refused that no exception allows"
	return n.Closing()
}

// refuses reports something that refuses and cannot be carried over. The group, or all groups, then
// refuse all that no exception allows.
func (c *folder) refuses(at report.Place, what, why string) {
	n := report.None(why)
	n.Place, n.What = at, what
	c.w.Report.Add(refusesMore(n))
	c.incomplete = true
}

// options splits a file's options into lists and others. Of others with the same name the last
// counts.
func (c *folder) options(all []option) (lists []ref, rest map[string]option) {
	rest = map[string]option{}
	for _, o := range all {
		r, is, ok := c.list(o)
		if ok || is {
			lists = append(lists, r)
		}
		if is {
			continue
		}
		if before, more := rest[o.name]; more && slices.Contains(several, o.name) {
			o.before = before.every()
		} else if more {
			c.w.Report.Add(&report.Note{Kind: report.Line, Place: before.Place, What: before.Text, Why: fmt.Sprintf("has no effect: %s is set again in %s", o.name, o.Place), Mend: "one of the two lines"})
		}
		rest[o.name] = o
	}
	return lists, rest
}

// mainConf finds the main settings file in a folder.
func mainConf(dir string) (path string, err error) {
	for _, name := range []string{"e2guardian.conf", "dansguardian.conf"} {
		path = filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is neither e2guardian.conf nor dansguardian.conf in %q", dir)
}
