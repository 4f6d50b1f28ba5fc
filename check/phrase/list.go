package phrase

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/language"
	listfiles "shuultuur/list/files"
)

// Limits of the files that a list includes.
const (
	maxFileBytes = 64 << 20
	maxFiles     = 2000 // files read in total; a file included twice counts twice
	maxDepth     = 16   // of includes
	maxWindows   = 1000 // of #time:
	maxWeight    = 1_000_000
)

// A kind is the effect of a phrase on a page. Kinds are in order of precedence: of two lines
// with the same text, the higher kind applies.
type kind uint8

const (
	weighted kind = iota
	banned
	exception
)

func (k kind) String() string { return [...]string{"weighted", "banned", "exception"}[k%3] }

// A Remark describes a line of a list that was read but probably does not do what its author
// meant.
type Remark struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`           // the oddity
	Mend string `json:"mend,omitempty"` // the line to write instead, "" if unknown
}

func (r Remark) String() string {
	s := fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text)
	if r.Mend != "" {
		s += "; write " + r.Mend
	}
	return s
}

// A rule is one line of a list: a phrase, or a combination of phrases that must all be
// present.
type rule struct {
	parts    [][]byte // normalised, without duplicates
	reaches  []reach  // of the parts
	raw      [][]byte // the same as written, if reader.raw is set
	kind     kind
	weight   int
	category int // index into lists.categories, 0 for none
	window   int // index into lists.windows, 0 for always
	file     int // index into lists.files
	line     int

	languages language.Set // of the pages in which it counts, 0 for all
}

// lists are the contents of the phrase lists, in the order they were read.
type lists struct {
	rules      []rule
	files      []string              // as shown to people
	paths      []string              // paths
	categories []string              // as written; [0] is ""
	windows    []window              // [0] is always
	stemmed    map[string]stemPhrase // by the key that stands for it in a rule
	remarks    []Remark
}

// A reader reads list files into lists.
type reader struct {
	lists
	open      func(path string) ([]byte, error) // returns the content of a file
	inside    func(list, path string) error     // refuses files that a list must not include; nil for none
	shown     func(path string) string          // returns the path as shown to people
	normalise func(phrase []byte) []byte        // to the form in which pages are searched
	fold      func(line []byte) []byte          // lower case
	transcode bool                              // convert legacy charsets to UTF-8
	alive     func(phrase []byte) []byte        // nil if phrase can match, else a phrase that would
	words     bool                              // phrases are words, of the language that the file's name says
	stems     bool                              // find words in braces by their stems
	markup    bool                              // pages are searched with their markup
	maxPhrase int                               // longest permitted phrase in bytes, normalised
	limit     int                               // the number that N% refers to
	raw       bool                              // also keep phrases as written
	opened    int
}

func readFile(path string) ([]byte, error) {
	// A pipe without a writer would be opened for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("it is not a file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("the file is larger than %d MiB", maxFileBytes>>20)}
	}
	return b, err
}

// A section is the state that a line inherits from previous lines.
type section struct {
	category, window int
	kind             kind   // of a phrase without a weight
	language         string // of the words to find by their stems; "" for only those in braces
}

// read reads the file at path and the files that it includes. stack has the paths of the
// including files.
func (r *reader) read(path string, sec section, stack []string) error {
	if slices.Contains(stack, path) {
		return fmt.Errorf("%q includes itself", r.shown(path))
	}
	if len(stack) >= maxDepth {
		return fmt.Errorf("includes are nested more than %d deep", maxDepth)
	}
	if r.opened++; r.opened > maxFiles {
		return fmt.Errorf("more than %d list files", maxFiles)
	}
	data, err := r.open(path)
	if err != nil {
		return err
	}
	stack = append(stack, path)
	file := len(r.files)
	r.files, r.paths = append(r.files, r.shown(path)), append(r.paths, path)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if r.transcode {
		data = toUTF8(data, path)
	}
	fold := r.fold
	spoken := language.Set(0)
	if r.words {
		spoken = spokenIn(path)
	}
	for n := 1; len(data) > 0; n++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		line = bytes.Trim(line, " \t\r\v\f")
		if len(line) == 0 {
			continue
		}
		var err error
		switch lower := foldASCII(line[:min(len(line), 16)]); {
		case line[0] == '<':
			err = r.phrase(fold(line), rule{kind: sec.kind, category: sec.category, window: sec.window, file: file, line: n, languages: spoken}, sec.language)
		case bytes.HasPrefix(lower, []byte(".include<")):
			err = r.include(line[len(".include<"):], sec, stack)
		case bytes.HasPrefix(lower, []byte("#listcategory:")):
			sec.category, err = r.category(line[len("#listcategory:"):], sec.category, file, n)
		case bytes.HasPrefix(lower, []byte("#time:")):
			sec.window, err = r.time(line[len("#time:"):])
		case r.stems && bytes.HasPrefix(lower, []byte("#language")):
			sec.language = r.language(line[len("#language"):], file, n)
		case bytes.HasPrefix(lower, []byte("#noconvert")):
			fold = func(line []byte) []byte { return line }
		case line[0] != '#':
			r.remark(file, n, fmt.Sprintf("%.40q is neither a phrase, which begins with \"<\", nor a comment", line), "")
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.files[file], n, err)
		}
	}
	return nil
}

func (r *reader) remark(file, line int, text, mend string) {
	r.remarks = append(r.remarks, Remark{File: r.files[file], Line: line, Text: text, Mend: mend})
}

// inside returns an error for a path that leads out of the folder of a list, or the nearest one
// above it called "lists": lists come from outside, and must not reach other files.
func inside(list, path string) error {
	root, err := listfiles.Root(list)
	if err != nil {
		return err
	}
	real, err := listfiles.RealPath(path)
	if err != nil {
		return err
	}
	if !listfiles.IsBelow(root, real) {
		return fmt.Errorf("it lies outside %s, the folder of the list", root)
	}
	return nil
}

// include reads the file named in rest, the text after ".Include<". The path is relative to
// the including file. If it does not exist, include tries it in lower case, as DansGuardian
// would.
func (r *reader) include(rest []byte, sec section, stack []string) error {
	name, _, closed := strings.Cut(string(rest), ">")
	if !closed || name == "" {
		return fmt.Errorf("include %q: want .Include<path>", name)
	}
	try := func(name string) error {
		path := filepath.Clean(name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(stack[len(stack)-1]), path)
		}
		if r.inside != nil {
			if err := r.inside(stack[0], path); err != nil {
				return err
			}
		}
		return r.read(path, sec, stack)
	}
	files := len(r.files)
	err := try(name)
	// Only if this very file is missing is the other name tried, not if it includes a missing
	// file.
	if lower := strings.ToLower(name); lower != name && len(r.files) == files && errors.Is(err, os.ErrNotExist) {
		if try(lower) == nil {
			return nil
		}
	}
	if err != nil && len(r.files) == files {
		return fmt.Errorf("include %q: %w", name, err)
	}
	return err
}

// category returns the index of the category named in rest. A name without its closing quote
// has no effect, as in the programs for which the lists were written.
func (r *reader) category(rest []byte, was, file, line int) (int, error) {
	name := string(rest)
	i, j := strings.IndexByte(name, '"'), strings.LastIndexByte(name, '"')
	if i < 0 || j <= i+1 {
		r.remark(file, line, "category name is not between quotes, so the line has no effect", `#listcategory: "`+strings.Trim(name, ` "`)+`"`)
		return was, nil
	}
	name = strings.ToValidUTF8(name[i+1:j], "\uFFFD")
	switch {
	case slices.Contains(ownCategories[:], name):
		return 0, fmt.Errorf("category %q is reserved by the check: choose another name", name)
	case len(name) > 200:
		return 0, fmt.Errorf("category %.40q… is longer than 200 bytes", name)
	}
	if i := slices.Index(r.categories, name); i >= 0 {
		return i, nil
	}
	if len(r.categories) > math.MaxUint16 {
		return 0, fmt.Errorf("category %q: more than %d categories", name, math.MaxUint16)
	}
	r.categories = append(r.categories, name)
	return len(r.categories) - 1, nil
}

// time returns the index of the window in rest.
func (r *reader) time(rest []byte) (int, error) {
	w, err := parseWindow(string(rest))
	if err != nil {
		return 0, err
	}
	if i := slices.Index(r.windows, w); i > 0 {
		return i, nil
	}
	if len(r.windows) > maxWindows {
		return 0, fmt.Errorf("more than %d different times", maxWindows)
	}
	r.windows = append(r.windows, w)
	return len(r.windows) - 1, nil
}

// phrase reads a line that begins with "<":
//
//	<phrase>            banned, or exception in an exception list
//	<phrase><weight>    weighted, in whatever list it stands
//	<a>,<b>,<c><weight> combination
//
// A word in braces is found by its stem. If the list has the language lang, all words are. If
// a line does not mean what it seems to mean to the programs for which lists were written, it
// is read as they read it, with a remark.
func (r *reader) phrase(line []byte, u rule, lang string) error {
	text, rest, hasWeight := bytes.Cut(line, []byte("><"))
	if hasWeight {
		text = line[:len(text)+1]
		number, _, closed := bytes.Cut(rest, []byte(">")) // a comment may follow
		weight, ok := parseWeight(number, r.limit)
		switch {
		case !ok || !closed:
			r.remark(u.file, u.line, fmt.Sprintf("weight %.40q is not a number, so the phrase is %v", number, u.kindWithout()), "")
		case weight == 0:
			r.remark(u.file, u.line, fmt.Sprintf("a weight of 0 makes the phrase %v", u.kindWithout()), "")
		}
		u.weight = weight
	}
	if u.weight != 0 {
		u.kind = weighted
	} else if u.kind == weighted {
		u.kind = banned
	}

	raw := [][]byte{}
	more := text
	for len(more) > 0 {
		_, part, opened := bytes.Cut(more, []byte("<"))
		part, _, closed := bytes.Cut(part, []byte(">"))
		if !opened || !closed {
			r.remark(u.file, u.line, fmt.Sprintf("%.80q is not a phrase between \"<\" and \">\", so the line has no effect", text), "")
			return nil
		}
		raw = append(raw, part)
		if _, more, _ = bytes.Cut(more, []byte(">,")); len(more) <= 2 {
			break
		}
	}
	r.slips(line, text, hasWeight, len(raw), u)

	for _, part := range raw {
		p, reach := r.stem(part, lang), midBegin|midEnd
		switch {
		case p != nil:
		case r.words:
			p, reach = reachOf(part, r.normalise)
		default:
			p = r.normalise(part)
		}
		switch {
		case len(bytes.TrimSpace(p)) == 0:
			r.remark(u.file, u.line, fmt.Sprintf("phrase %.80q has no letter or digit to look for, so the line has no effect", part), "")
			return nil
		case len(p) > r.maxPhrase:
			r.remark(u.file, u.line, fmt.Sprintf("phrase %.40q… is longer than %d bytes and can never match", part, r.maxPhrase), "")
			return nil
		case !r.markup && bytes.Contains(part, []byte(`="`)):
			r.remark(u.file, u.line, fmt.Sprintf("%.80q is markup, and only text is searched, so the line has no effect", part), "")
			return nil
		}
		if r.alive != nil {
			if mended := r.alive(p); mended != nil {
				r.remark(u.file, u.line, fmt.Sprintf("phrase %.80q has a character that is a blank on every page in this mode, so it never matches", part), "<"+string(mended)+">")
			}
		}
		u.parts, u.reaches = append(u.parts, bytes.Clone(p)), append(u.reaches, reach)
		if r.raw {
			u.raw = append(u.raw, bytes.Clone(part))
		}
	}
	r.rules = append(r.rules, u)
	return nil
}

// kindWithout returns the kind of a line without a weight.
func (u *rule) kindWithout() kind {
	if u.kind == exception {
		return exception
	}
	return banned
}

// slips adds remarks on lines that probably contain typing errors.
func (r *reader) slips(line, text []byte, hasWeight bool, parts int, u rule) {
	squeezed := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == ' ' || c == '\t' {
			j := i
			for j < len(line) && (line[j] == ' ' || line[j] == '\t') {
				j++
			}
			before := len(squeezed) > 0 && squeezed[len(squeezed)-1] == '>'
			if before && j < len(line) && (line[j] == '<' || line[j] == ',') {
				i = j - 1
				continue
			}
		}
		squeezed = append(squeezed, c)
	}
	mended := string(squeezed)
	if i := strings.LastIndexByte(mended, '>'); i >= 0 {
		mended = mended[:i+1]
	}
	switch {
	case !hasWeight && strings.Contains(mended, "><"):
		r.remark(u.file, u.line, fmt.Sprintf("blank before the weight: %.80q has no weight and is %v", text, u.kind), mended)
	case parts == 1 && strings.Contains(mended, ">,<") && !bytes.Contains(text, []byte(">,")):
		r.remark(u.file, u.line, fmt.Sprintf("blank before the comma: only the first phrase of %.80q is read", text), mended)
	}
}

// parseWeight parses "20", "-5" or "10%", a percentage of limit. It limits weights to a
// million, so that sums do not overflow.
func parseWeight(s []byte, limit int) (weight int, ok bool) {
	t, percent := strings.CutSuffix(strings.TrimSpace(string(s)), "%")
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	n = min(max(n, -maxWeight), maxWeight)
	if percent {
		n = n * int64(limit) / 100
		n = min(max(n, -maxWeight), maxWeight)
	}
	return int(n), true
}

// foldASCII returns p in lower case, as e2guardian folds lists.
func foldASCII(p []byte) []byte { return ascii.AppendLower(make([]byte, 0, len(p)), p) }
