// Package text has the texts of pages and mails in all languages.
//
// Data moves as follows. Each language is a plain file, TAG.txt, with lines "key =
// text"; names in braces in a text are replaced. A key is a name that the English
// file explains, or the English text itself. The program has the files in one
// compressed file (folder pack). [New] reads them and the files of a folder, which
// add languages or change texts. [Set.For] chooses the language by a browser's
// Accept-Language. Templates are written in English, and [Texts.Template] translates
// their visible text. In a language that is written from the right, values stand
// between characters that keep their order.
package text

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/language"
)

// Style is how pages for people look, wherever they are written: CSS.
//
//go:embed page.css
var Style string

// Parts are the pictures and icons of these pages: templates (html/template), whose colours are in
// [Style].
//
//go:embed door.html
var Parts string

// Packed is the name of the file that "go run ./text/pack" makes from the
// texts.
const Packed = "texts.zst"

//go:embed texts.zst
var packed []byte

// source is the language that has every text.
const source = "en"

// maxFile bounds a file of texts, in bytes.
const maxFile = 1 << 20

// A Set has the texts of all languages. It is immutable.
type Set struct {
	all     []*Texts
	matcher language.Matcher
}

// Texts are the texts of one language.
type Texts struct {
	Lang string // BCP 47, for the attribute lang
	Dir  string // "ltr" or "rtl", for the attribute dir
	of   map[string]string
	in   *Texts // the source language, for texts that a folder's file lacks
}

// New returns the built-in texts and those in dir, if it is not "".
func New(dir string) (*Set, error) {
	s := &Set{}
	all, err := unpack()
	if err != nil {
		return nil, fmt.Errorf("unpacking the texts: %w", err)
	}
	for file := range strings.SplitSeq(strings.TrimPrefix(all, begins), "\n"+begins) {
		name, data, _ := strings.Cut(file, "\n")
		if err := s.add(name, data); err != nil {
			return nil, err
		}
	}
	if dir != "" {
		if err := s.read(os.DirFS(dir)); err != nil {
			return nil, fmt.Errorf("texts in %s: %w", dir, err)
		}
	}
	i := slices.IndexFunc(s.all, func(t *Texts) bool { return t.Lang == source })
	s.all[0], s.all[i] = s.all[i], s.all[0] // the first is used if none matches
	var tags []language.Tag
	for _, t := range s.all {
		t.in = s.all[0]
		tag, err := language.Parse(t.Lang)
		if err != nil {
			return nil, fmt.Errorf("texts: %q is not the tag of a language: %w", t.Lang, err)
		}
		tags = append(tags, tag)
		t.Dir = "ltr"
		switch script, _ := tag.Script(); script.String() {
		case "Arab", "Hebr", "Syrc", "Thaa", "Nkoo":
			t.Dir = "rtl"
		}
	}
	s.matcher = language.NewMatcher(tags)
	return s, nil
}

// begins precedes the name of each file within the packed one.
const begins = "#: "

// Pack returns the text files of a folder in packed form: without comments,
// and with the name of each file before it.
func Pack(files fs.FS) ([]byte, error) {
	var b bytes.Buffer
	err := eachFile(files, func(name string, data []byte) error {
		b.WriteString(begins + name + "\n")
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				b.WriteString(line + "\n")
			}
		}
		return nil
	})
	return b.Bytes(), err
}

func unpack() (string, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := r.DecodeAll(packed, nil)
	return string(b), err
}

// eachFile calls f for every text file in a folder, by name.
func eachFile(files fs.FS, f func(name string, data []byte) error) error {
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := fs.Stat(files, name)
		if err != nil {
			return err
		}
		if info.Size() > maxFile {
			return fmt.Errorf("%s: larger than %d bytes", name, maxFile)
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := f(name, data); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) read(files fs.FS) error {
	return eachFile(files, func(name string, data []byte) error { return s.add(name, string(data)) })
}

// add adds the lines of a file.
func (s *Set) add(name, data string) error {
	tag := strings.TrimSuffix(name, ".txt")
	i := slices.IndexFunc(s.all, func(t *Texts) bool { return t.Lang == tag })
	if i < 0 {
		i = len(s.all)
		s.all = append(s.all, &Texts{Lang: tag, of: map[string]string{}})
	}
	n := 0
	for line := range strings.Lines(data) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, text, ok := strings.Cut(line, " = ")
		if !ok {
			return fmt.Errorf(`%s:%d: %.40q is not of the form "key = text"`, name, n, line)
		}
		s.all[i].of[strings.TrimSpace(key)] = text
	}
	return nil
}

// For returns the texts for the value of an Accept-Language field (RFC 9110,
// section 12.5.4), or the English ones if none matches.
func (s *Set) For(accept string) *Texts {
	tags, _, err := language.ParseAcceptLanguage(accept[:min(len(accept), 200)])
	if err != nil || len(tags) == 0 {
		return s.all[0]
	}
	_, i, confidence := s.matcher.Match(tags...)
	if confidence == language.No {
		return s.all[0]
	}
	return s.all[i]
}

// Time formats a time in this machine's zone.
func (t *Texts) Time(at time.Time) string {
	if t == nil || t.Lang == source {
		return at.Local().Format("Monday 2 January 2006, 15:04")
	}
	return at.Local().Format("2006-01-02 15:04")
}

// Day formats the day of a time.
func (t *Texts) Day(at time.Time) string {
	if t == nil || t.Lang == source {
		return at.Local().Format("Monday 2 January 2006")
	}
	return at.Local().Format(time.DateOnly)
}

// A Choice returns the texts for the value of an Accept-Language field. A nil
// Choice chooses English.
type Choice func(accept string) *Texts

// For returns the texts, or nil for English.
func (c Choice) For(accept string) *Texts {
	if c == nil {
		return nil
	}
	return c(accept)
}

// All returns the texts of every language, English first.
func (s *Set) All() []*Texts { return slices.Clone(s.all) }

// Mark returns key. It marks a key that is used elsewhere, so that the tests
// find it.
func Mark(key string) string { return key }

// Say returns the text of a key, with each {name} of the pairs name, value
// replaced. If the language lacks the key, it returns the English text. A key
// that the English file lacks is its own English text. A nil t is English.
func (t *Texts) Say(key string, pairs ...string) string {
	text := key
	if t != nil {
		text = cmp.Or(t.of[key], t.in.of[key], key)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, "{"+pairs[i]+"}", t.isolate(pairs[i+1]))
	}
	return text
}

// Characters that keep the order of what is between them, whatever is around it: an address, a date
// or a number with its unit in a text from the right (UAX 9, FSI and PDI).
const isolateFirst, isolateEnd = "\u2068", "\u2069"

// isolate keeps a value apart from a text from the right. Digits need that not, and a link must
// not end with a letter that nobody sees.
func (t *Texts) isolate(value string) string {
	if t == nil || t.Dir != "rtl" || strings.Trim(value, "0123456789") == "" || strings.Contains(value, "://") {
		return value
	}
	return isolateFirst + value + isolateEnd
}

// placed is the place of a value in the text of a template, with an element that isolates by itself or
// whose text people copy.
var placed = regexp.MustCompile(`(<(?:bdi|code|kbd)>)?\{[0-9]\}`)

// isolatePlaces does for a text of templates, whose values are not known yet, what isolate does.
func (t *Texts) isolatePlaces(text string) string {
	if t.Dir != "rtl" {
		return text
	}
	return placed.ReplaceAllStringFunc(text, func(place string) string {
		if place[0] == '<' {
			return place
		}
		return isolateFirst + place + isolateEnd
	})
}
