// Package report says what became of an import: for each option of the other program whether it
// was carried over, and where to, or why not and what to do; and for the lines of lists what is odd
// about them.
//
// Data moves as follows: importers look up each setting in a [Table], whose [Row] converts it, and
// add the [Note] on it to a [Report], by kind and place. The report counts all, keeps the first of each kind,
// and is written as text and HTML. It begins with what the import opens and closes.
package report

import (
	"bufio"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// MaxNotes is the number of notes of one kind that are kept. All are counted.
const MaxNotes = 2000

// A Report describes the conversion of another program's settings and lists.
type Report struct {
	Program, From string
	Version       string   // version of the other program, if its settings have it
	Lines         int      // lines of the lists that were read
	Entries       int      // entries of our lists
	Refused       int      // lines of lists that were left out
	Duplicates    int      // duplicate entries
	Demands       []string // what clients must now do, and what is to be filled in for that
	Notes         []Note   // at most 2,000 of a kind
	Count         [kinds]int
	Opened        Changes // what is allowed that was refused
	Closed        Changes // what is refused that was allowed
	Defaults      bool    // the settings have comments alone, so everything is at its default
	Comparisons   []Comparison
}

// Changes are notes of one effect on clients.
type Changes struct {
	Notes []Note // at most 2,000
	Count int
}

func (c *Changes) add(n Note) {
	if c.Count++; c.Count <= MaxNotes {
		c.Notes = append(c.Notes, n)
	}
}

// More is the number of notes that are not kept.
func (c Changes) More() int { return c.Count - len(c.Notes) }

func (r *Report) Add(n *Note) {
	kept := Note{Kind: n.Kind, Place: Place{File: n.File, Line: n.Line}, What: Clip(n.What), Ours: Clip(n.Ours), Why: Clip(n.Why), Mend: Clip(n.Mend), Effect: n.Effect}
	if r.Count[n.Kind]++; r.Count[n.Kind] <= MaxNotes {
		r.Notes = append(r.Notes, kept)
	}
	switch n.Effect {
	case Opens:
		r.Opened.add(kept)
	case Closes:
		r.Closed.add(kept)
	}
}

// CheckKnown returns an error if no option of the other program is known: then the file is not
// one of its settings, or it cannot be read.
func (r *Report) CheckKnown() error {
	if r.Defaults {
		return nil
	}
	why := "nothing in it is an option of " + r.Program + " that is known: check the name of the program, and the path"
	for _, n := range r.Notes {
		switch {
		case n.Kind == Line, n.Kind == Regexp, n.Kind == Lost && (n.Why == NoneOfOurs || n.Why == NotKnown || n.Why == NoBlock):
		case n.Line == 0 && (n.Kind == Default || n.Kind == Changed): // what is not in the file
		case n.Line == 0 && n.Kind == Lost: // a file that cannot be read
			why += "; " + strings.TrimPrefix(n.Why, "it cannot be read: ")
		default:
			return nil
		}
	}
	return errors.New(why)
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

// A TitledChange is one half of the section about what an import opens and closes.
type TitledChange struct {
	Title string
	Changes
}

// Effects returns what the import opens and closes, what it opens first.
func (r *Report) Effects() []TitledChange {
	return []TitledChange{{"Allowed now, and refused before", r.Opened}, {"Refused now, and allowed before", r.Closed}}
}

// Opened is the exit status of an import that allows what the other program refuses.
const Opened = 3

// Status returns the exit status of an import: Opened, or 0.
func (r *Report) Status() int {
	if r.Opened.Count > 0 || r.opens() {
		return Opened
	}
	return 0
}

// Consequences returns lines about what the settings open and close: good if they open nothing.
func (r *Report) Consequences(good string) (text string) {
	if r.Closed.Count > 0 {
		text = fmt.Sprintf("They refuse more than %s does, in %d cases: see the beginning of the report.\n", r.Program, r.Closed.Count)
	}
	if r.opens() {
		text += fmt.Sprintf("Asked the same, they allow what %s refuses: see \"allowed now\" before you use them.\n", r.Program)
	}
	if r.Opened.Count > 0 {
		return text + fmt.Sprintf("They allow what %s refuses, in %d cases: see the beginning of the report before you use them.\n", r.Program, r.Opened.Count)
	}
	if r.opens() {
		return text
	}
	return text + good
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Import of %s %s from %s\n%s\n", r.Program, r.Version, r.From, r.Summary())
	for _, d := range r.Demands {
		fmt.Fprintf(b, "%s\n", d)
	}
	fmt.Fprint(b, "\nOpened or closed by this import\n")
	for _, x := range r.Effects() {
		if x.Count == 0 {
			fmt.Fprintf(b, "  %s: nothing\n", x.Title)
			continue
		}
		fmt.Fprintf(b, "  %s (%d):\n", x.Title, x.Count)
		for _, n := range x.Notes {
			fmt.Fprintf(b, "    %s\n", n)
		}
		if x.More() > 0 {
			fmt.Fprintf(b, "    … and %d more\n", x.More())
		}
	}
	r.comparisons(b)
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
{{range .Demands}}<p><strong>{{.}}</strong></p>
{{end}}<h2>Opened or closed by this import</h2>
{{range effects .}}<h3>{{.Title}}</h3>
{{if .Notes}}<ul>
{{range .Notes}}<li>{{.String}}</li>
{{end}}</ul>
{{else}}<p>Nothing.</p>
{{end}}{{if .More}}<p>… and {{.More}} more.</p>
{{end}}{{end}}{{if .Comparisons}}<h2>Asked both</h2>
<ul>
{{range .Comparisons}}{{range .Lines}}<li>{{.}}</li>
{{end}}{{end}}</ul>
{{end}}{{range sections .}}<h2>{{.Kind}}</h2>
<table><tr><th scope="col">Where</th><th scope="col">What</th><th scope="col">Ours</th><th scope="col">Why</th><th scope="col">Write</th></tr>
{{range .Notes}}<tr><td><code>{{where .}}</code></td><td>{{.What}}</td><td>{{.Ours}}</td><td>{{.Why}}</td><td>{{.Mend}}</td></tr>
{{end}}</table>{{if .More}}<p>… and {{.More}} more.</p>{{end}}
{{end}}</body></html>
`

// HTML writes the report as one page that loads nothing.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"summary": (*Report).Summary, "sections": (*Report).Sections, "where": Note.Where, "effects": (*Report).Effects,
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// Write writes report.txt and report.html into a folder.
func (r *Report) Write(dir string) error {
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
