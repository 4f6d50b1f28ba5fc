// Package manual writes what a program's user reads besides its help, from descriptions of its
// commands: manual pages for man(1), and the scripts by which bash, zsh and fish complete
// commands, flags and arguments.
package manual

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/atomicfile"
)

// A Program has commands.
type Program struct {
	Name, Summary, Version string
	Made                   time.Time   // shown on the pages
	Files                  [][2]string // files that it uses, and what they are
	Commands               []Page      // each before its own subcommands
}

// A Page describes a command.
type Page struct {
	Name    string // with the names of the commands above it
	Args    string // "[flags] FILE..."
	What    string // the help, whose paragraphs empty lines divide; indented ones are kept as they are
	Summary string // one line
	Example string // a line that can be typed, without the name of the program; "" for none
	Flags   *flag.FlagSet
	Choices []string // values of the first argument, if Args does not name them
}

// WritePages writes a manual page for the program and one for each command into dir.
func (p *Program) WritePages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range append(slices.Clone(p.Commands), Page{}) {
		file := filepath.Join(dir, p.title(c)+".1")
		if err := atomicfile.WriteBytes(file, 0o644, []byte(p.page(c))); err != nil {
			return err
		}
	}
	return nil
}

// title returns the name of a page: the program's for the empty one.
func (p *Program) title(c Page) string {
	return strings.ReplaceAll(strings.TrimSpace(p.Name+" "+c.Name), " ", "-")
}

// page returns a page in the man macros of troff. The empty one is that of the program, which
// lists all commands.
func (p *Program) page(c Page) string {
	var b strings.Builder
	name := p.title(c)
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s%s\n", strings.ToUpper(name), p.Made.Format(time.DateOnly), troff(p.Version), strings.ToUpper(p.Name[:1]), p.Name[1:])
	summary := p.Summary
	if c.Name != "" {
		summary = c.Summary
	}
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", troff(name), troff(summary))
	if c.Name == "" {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[arguments]\n.SH COMMANDS\n", p.Name)
		for _, c := range p.Commands {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", troff(c.Name), troff(c.Summary))
		}
		b.WriteString(".SH FILES\n")
		for _, f := range p.Files {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", f[0], f[1])
		}
		return b.String()
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s %s\n%s\n.SH DESCRIPTION\n", p.Name, troff(c.Name), troff(c.Args))
	for i, part := range strings.Split(strings.Trim(c.What, "\n"), "\n\n") {
		if strings.HasPrefix(part, " ") || strings.Contains(part, "   ") {
			fmt.Fprintf(&b, ".nf\n%s\n.fi\n", troff(part))
		} else {
			if i > 0 { // the heading begins a paragraph
				b.WriteString(".PP\n")
			}
			b.WriteString(troff(part) + "\n")
		}
	}
	if c.Flags != nil {
		heading := ".SH OPTIONS\n"
		c.Flags.VisitAll(func(f *flag.Flag) {
			arg, text := flag.UnquoteUsage(f)
			fmt.Fprintf(&b, "%s.TP\n.BI \\-%s \" %s\"\n%s\n", heading, troff(f.Name), troff(arg), troff(text))
			heading = ""
		})
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLE\n.nf\n%s %s\n.fi\n", p.Name, troff(c.Example))
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", p.Name)
	return b.String()
}

// troff escapes text.
func troff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
