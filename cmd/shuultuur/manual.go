//go:build !small

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/atomicfile"
	"shuultuur/importer"
)

const manHelp = `
Writes a manual page for the program and one for each command into DIR, for
man(1): man -l DIR/shuultuur.1. Packages install them.`

func man(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "man", "DIR", manHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	dir := f.Arg(0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(e, err)
	}
	all := pages(ctx, commands(), "")
	for _, p := range append(all, page{}) {
		file := filepath.Join(dir, strings.ReplaceAll(strings.TrimSpace("shuultuur "+p.name), " ", "-")+".1")
		if err := atomicfile.WriteBytes(file, 0o644, []byte(manPage(p, all))); err != nil {
			return fail(e, err)
		}
	}
	return 0
}

// manPage returns a page in the man macros of troff. For the empty page, it is
// that of the program, which lists all commands.
func manPage(p page, all []page) string {
	var b strings.Builder
	name := strings.ReplaceAll(strings.TrimSpace("shuultuur "+p.name), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 %s %s Shuultuur\n", strings.ToUpper(name), madeOn().Format(time.DateOnly), troff(thisBuild().Version))
	summary := "filter between a network's people and the web"
	if p.name != "" {
		summary = p.summary
	}
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", troff(name), troff(summary))
	if p.name == "" {
		b.WriteString(".SH SYNOPSIS\n.B shuultuur\n.I COMMAND\n[arguments]\n.SH COMMANDS\n")
		for _, c := range all {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", troff(c.name), troff(c.summary))
		}
		b.WriteString(".SH FILES\n.TP\n.I /etc/shuultuur/shuultuur.yaml\nthe settings of the service\n.TP\n.I /var/lib/shuultuur\nits data\n")
		return b.String()
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B shuultuur %s\n%s\n.SH DESCRIPTION\n", troff(p.name), troff(p.args))
	for i, part := range strings.Split(strings.Trim(p.what, "\n"), "\n\n") {
		if strings.HasPrefix(part, " ") || strings.Contains(part, "   ") {
			fmt.Fprintf(&b, ".nf\n%s\n.fi\n", troff(part))
		} else {
			if i > 0 { // the heading begins a paragraph
				b.WriteString(".PP\n")
			}
			b.WriteString(troff(part) + "\n")
		}
	}
	if p.flags != nil {
		heading := ".SH OPTIONS\n"
		p.flags.VisitAll(func(f *flag.Flag) {
			arg, text := flag.UnquoteUsage(f)
			fmt.Fprintf(&b, "%s.TP\n.BI \\-%s \" %s\"\n%s\n", heading, troff(f.Name), troff(arg), troff(text))
			heading = ""
		})
	}
	b.WriteString(".SH SEE ALSO\n.BR shuultuur (1)\n")
	return b.String()
}

// madeOn returns the date of manual pages: that of the release, which packages set, or of
// the revision, so that the same program makes the same pages.
func madeOn() time.Time {
	if n, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	if t, err := time.Parse(time.RFC3339, thisBuild().Time); err == nil {
		return t
	}
	return time.Now().UTC()
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

const completionHelp = `
Prints what makes a shell complete commands, flags and files:

  bash  shuultuur completion bash > /usr/share/bash-completion/completions/shuultuur
  zsh   shuultuur completion zsh > /usr/share/zsh/site-functions/_shuultuur
  fish  shuultuur completion fish > /usr/share/fish/vendor_completions.d/shuultuur.fish`

func completion(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "completion", "bash|zsh|fish", completionHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	write, ok := map[string]func(io.Writer, []page){"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[f.Arg(0)]
	if !ok {
		return fail(e, errors.New("completion exists for bash, zsh and fish, not for "+f.Arg(0)))
	}
	write(e.stdout, pages(ctx, commands(), ""))
	return 0
}

// words returns the words that may follow a command: its subcommands and flags.
func (p page) words(all []page) (words []string) {
	words = p.choices()
	for _, c := range all {
		rest, below := strings.CutPrefix(c.name, strings.TrimSpace(p.name)+" ")
		if p.name == "" {
			rest, below = c.name, true
		}
		if below && !strings.Contains(rest, " ") {
			words = append(words, rest)
		}
	}
	if p.flags != nil {
		p.flags.VisitAll(func(f *flag.Flag) { words = append(words, "-"+f.Name) })
	}
	return words
}

// choices returns the values of an argument that are named, as in "bash|zsh|fish", or the only one, as
// in "redis LIST...", or that import knows.
func (p page) choices() []string {
	if p.name == "import" {
		return importer.Programs()
	}
	for i, word := range strings.Fields(p.args) {
		named := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789|.") == "" && strings.Trim(word, "|.") != ""
		if named && (i == 0 || strings.Contains(word, "|")) {
			return slices.DeleteFunc(strings.Split(word, "|"), func(s string) bool { return s == "..." })
		}
	}
	return nil
}

// takes returns the flags that have a value.
func (p page) takes() (flags []string) {
	if p.flags != nil {
		p.flags.VisitAll(func(f *flag.Flag) {
			if arg, _ := flag.UnquoteUsage(f); arg != "" {
				flags = append(flags, "-"+f.Name)
			}
		})
	}
	return flags
}

const bashScript = `_shuultuur() {
	local cur=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} at="${COMP_WORDS[1]:-} ${COMP_WORDS[2]:-}" words= takes=
	[ "$COMP_CWORD" -eq 1 ] && at=
	case $at in
%s	esac
	case " $takes " in *" $last "*) words= ;; esac
	# shellcheck disable=SC2207
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -o bashdefault -F _shuultuur shuultuur
`

func bashCompletion(w io.Writer, all []page) { fmt.Fprintf(w, bashScript, cases(all)) }

// cases returns the branches that set, by the first two arguments, the words that may follow
// and the flags with a value; longest match first.
func cases(all []page) string {
	var w strings.Builder
	for _, deep := range []bool{true, false} {
		for _, p := range all {
			if strings.Contains(p.name, " ") == deep {
				pattern := "'" + p.name + " '*"
				if deep {
					pattern = "'" + p.name + "'"
				}
				fmt.Fprintf(&w, "\t%s) words='%s' takes='%s' ;;\n", pattern, strings.Join(p.words(all), " "), strings.Join(p.takes(), " "))
			}
		}
	}
	fmt.Fprintf(&w, "\t*) words='%s' ;;\n", strings.Join(page{}.words(all), " "))
	return w.String()
}

const zshScript = `#compdef shuultuur
_shuultuur() {
	local at="${words[2]} ${words[3]}" last="${words[CURRENT-1]}" list= takes=
	(( CURRENT == 2 )) && at=
	case $at in
%s	esac
	case " $takes " in *" $last "*) list= ;; esac
	compadd -- ${=list}
	_files
}
_shuultuur "$@"
`

func zshCompletion(w io.Writer, all []page) {
	fmt.Fprintf(w, zshScript, strings.ReplaceAll(cases(all), ") words=", ") list="))
}

func fishCompletion(w io.Writer, all []page) {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	for _, p := range all {
		words := strings.Fields(p.name)
		when, name := "__fish_use_subcommand", words[0]
		if len(words) > 1 {
			when, name = "__fish_seen_subcommand_from "+words[0], words[1]
		}
		fmt.Fprintf(w, "complete -c shuultuur -n %s -a %s -d %s\n", quote(when), name, quote(p.summary))
		when = "__fish_seen_subcommand_from " + words[0]
		if len(words) > 1 {
			when += "; and __fish_seen_subcommand_from " + words[1]
		}
		for _, choice := range p.choices() {
			fmt.Fprintf(w, "complete -c shuultuur -n %s -a %s\n", quote(when), quote(choice))
		}
		if p.flags == nil {
			continue
		}
		p.flags.VisitAll(func(f *flag.Flag) {
			arg, text := flag.UnquoteUsage(f)
			need := " -r"
			if arg == "" {
				need = ""
			}
			fmt.Fprintf(w, "complete -c shuultuur -n %s -o %s%s -d %s\n", quote(when), f.Name, need, quote(text))
		})
	}
}
