package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// A Kind is the kind of a note. Notes are reported by kind.
type Kind int

const (
	Carried Kind = iota // an option, and its counterpart
	Changed             // carried over, but not quite the same
	Default             // an option that was left out, empty or off
	Lost                // an option that has no equivalent, and why
	Regexp              // an expression that does not compile
	Line                // a line of a list that is without effect, a duplicate, shadowed or odd
	Empty               // a list without entries
	kinds
)

var titles = [kinds]string{
	"Carried over", "Carried over with a difference", "Was at its default", "Lost, and what to do", "Expressions that do not compile",
	"Lines to look at", "Empty lists, left out",
}

func (k Kind) String() string { return titles[k%kinds] }

// maxNotes is the number of notes of one kind that are kept. All are counted.
const maxNotes = 2000

// A place is a line of a file; what is its text.
type place struct {
	file string
	line int // 0 for the whole file
	what string
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// A Note is one thing an administrator should know about the import.
type Note struct {
	Kind
	place
	What string // the option or line
	Ours string // its place in our settings
	Why  string
	Mend string // the suggested replacement
}

func (n Note) Where() string { return n.place.String() }

func (n Note) String() string {
	s := n.Where() + ": " + n.What
	if n.Ours != "" {
		s += " → " + n.Ours
	}
	if n.Why != "" {
		s += ": " + n.Why
	}
	if n.Mend != "" {
		s += "; write " + n.Mend
	}
	return s
}

// A Report describes the conversion of another program's settings and lists.
type Report struct {
	Program, From string
	Version       string // version of the other program, if its settings have it
	Lines         int    // lines of the lists that were read
	Entries       int    // entries of our lists
	Refused       int    // lines of lists that were left out
	Duplicates    int    // duplicate entries
	Notes         []Note // at most 2,000 of a kind
	Count         [kinds]int
}

func (r *Report) add(n *Note) {
	if r.Count[n.Kind]++; r.Count[n.Kind] <= maxNotes {
		kept := Note{Kind: n.Kind, place: place{file: n.file, line: n.line}, What: clip(n.What), Ours: clip(n.Ours), Why: clip(n.Why), Mend: clip(n.Mend)}
		r.Notes = append(r.Notes, kept)
	}
}

// checkKnown returns an error if no option of the other program is known: then the file is not
// one of its settings, or it cannot be read.
func (r *Report) checkKnown() error {
	why := "nothing in it is an option of " + r.Program + " that is known: check the name of the program, and the path"
	for _, n := range r.Notes {
		switch {
		case n.Kind == Line, n.Kind == Regexp, n.Kind == Lost && (n.Why == noneOfOurs || n.Why == notKnown || n.Why == noBlock):
		case n.line == 0 && (n.Kind == Default || n.Kind == Changed): // what is not in the file
		case n.line == 0 && n.Kind == Lost: // a file that cannot be read
			why += "; " + strings.TrimPrefix(n.Why, "it cannot be read: ")
		default:
			return nil
		}
	}
	return errors.New(why)
}

// clip shortens a text of a note, which may be a line of a megabyte.
func clip(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// A Section is the notes of one kind.
type Section struct {
	Kind  Kind
	Notes []Note
	More  int // not kept
}

// Sections returns the notes by kind, without kinds that have none.
func (r *Report) Sections() []Section {
	var all []Section
	for _, k := range []Kind{Lost, Changed, Regexp, Line, Empty, Default, Carried} {
		s := Section{Kind: k}
		for _, n := range r.Notes {
			if n.Kind == k {
				s.Notes = append(s.Notes, n)
			}
		}
		if s.More = r.Count[k] - len(s.Notes); len(s.Notes) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Import of %s %s from %s\n%s\n", r.Program, r.Version, r.From, r.Summary())
	for _, s := range r.Sections() {
		fmt.Fprintf(b, "\n%s (%d)\n", s.Kind, len(s.Notes)+s.More)
		for _, n := range s.Notes {
			fmt.Fprintf(b, "  %s\n", n)
		}
		if s.More > 0 {
			fmt.Fprintf(b, "  … and %d more\n", s.More)
		}
	}
	return b.Flush()
}

// Summary returns the report in one line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d options carried over, %d of them with a difference, %d not; %d lines of lists gave %d entries, %d refused, %d twice, %d to look at, %d expressions do not compile",
		r.Count[Carried]+r.Count[Changed], r.Count[Changed], r.Count[Lost], r.Lines, r.Entries, r.Refused, r.Duplicates, r.Count[Line], r.Count[Regexp])
}

const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Import of {{.Program}}</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;color-scheme:light dark}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884;overflow-wrap:anywhere}
code{font-size:.9em}
</style></head><body>
<h1>Import of {{.Program}} {{.Version}}</h1>
<p>From <code>{{.From}}</code>. {{summary .}}.</p>
{{range sections .}}<h2>{{.Kind}}</h2>
<table><tr><th scope="col">Where</th><th scope="col">What</th><th scope="col">Ours</th><th scope="col">Why</th><th scope="col">Write</th></tr>
{{range .Notes}}<tr><td><code>{{where .}}</code></td><td>{{.What}}</td><td>{{.Ours}}</td><td>{{.Why}}</td><td>{{.Mend}}</td></tr>
{{end}}</table>{{if .More}}<p>… and {{.More}} more.</p>{{end}}
{{end}}</body></html>
`

// HTML writes the report as one page that loads nothing.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"summary": (*Report).Summary, "sections": (*Report).Sections, "where": Note.Where,
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// write writes report.txt and report.html into a folder.
func (r *Report) write(dir string) error {
	for name, to := range map[string]func(io.Writer) error{"report.txt": r.Text, "report.html": r.HTML} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(to(f), f.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
