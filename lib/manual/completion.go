package manual

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// words returns the words that may follow a command: its subcommands and flags.
func (c Page) words(all []Page) (words []string) {
	words = c.choices()
	for _, sub := range all {
		rest, below := strings.CutPrefix(sub.Name, c.Name+" ")
		if c.Name == "" {
			rest, below = sub.Name, true
		}
		if below && !strings.Contains(rest, " ") {
			words = append(words, rest)
		}
	}
	if c.Flags != nil {
		c.Flags.VisitAll(func(f *flag.Flag) { words = append(words, "-"+f.Name) })
	}
	return words
}

// choices returns the values of an argument that are named, as in "bash|zsh|fish", or the only
// one, as in "redis LIST...".
func (c Page) choices() []string {
	if c.Choices != nil {
		return c.Choices
	}
	for i, word := range strings.Fields(c.Args) {
		named := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789|.") == "" && strings.Trim(word, "|.") != ""
		if named && (i == 0 || strings.Contains(word, "|")) {
			return slices.DeleteFunc(strings.Split(word, "|"), func(s string) bool { return s == "..." })
		}
	}
	return nil
}

// takes returns the flags that have a value.
func (c Page) takes() (flags []string) {
	if c.Flags != nil {
		c.Flags.VisitAll(func(f *flag.Flag) {
			if arg, _ := flag.UnquoteUsage(f); arg != "" {
				flags = append(flags, "-"+f.Name)
			}
		})
	}
	return flags
}

const bashScript = `_PROGRAM() {
	local cur=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} at="${COMP_WORDS[1]:-} ${COMP_WORDS[2]:-}" words= takes=
	[ "$COMP_CWORD" -eq 1 ] && at=
	case $at in
CASES
	esac
	case " $takes " in *" $last "*) words= ;; esac
	# shellcheck disable=SC2207
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -o bashdefault -F _PROGRAM PROGRAM
`

// Completion returns the script that makes a shell complete the commands of the program. ok is
// false if there is none for the shell.
func (p *Program) Completion(shell string) (script string, ok bool) {
	switch shell {
	case "bash":
		return strings.NewReplacer("PROGRAM", p.Name, "CASES\n", p.cases()).Replace(bashScript), true
	case "zsh":
		cases := strings.ReplaceAll(p.cases(), ") words=", ") list=")
		return strings.NewReplacer("PROGRAM", p.Name, "CASES\n", cases).Replace(zshScript), true
	case "fish":
		return p.fish(), true
	case "powershell":
		return strings.NewReplacer("PROGRAM", p.Name, "CASES\n", p.hash()).Replace(powershellScript), true
	}
	return "", false
}

// cases returns the branches that set, by the first two arguments, the words that may follow
// and the flags with a value; longest match first.
func (p *Program) cases() string {
	var w strings.Builder
	for _, deep := range []bool{true, false} {
		for _, c := range p.Commands {
			if strings.Contains(c.Name, " ") == deep {
				pattern := "'" + c.Name + " '*"
				if deep {
					pattern = "'" + c.Name + "'"
				}
				fmt.Fprintf(&w, "\t%s) words='%s' takes='%s' ;;\n", pattern, strings.Join(c.words(p.Commands), " "), strings.Join(c.takes(), " "))
			}
		}
	}
	fmt.Fprintf(&w, "\t*) words='%s' ;;\n", strings.Join(Page{}.words(p.Commands), " "))
	return w.String()
}

const zshScript = `#compdef PROGRAM
_PROGRAM() {
	local at="${words[2]} ${words[3]}" last="${words[CURRENT-1]}" list= takes=
	(( CURRENT == 2 )) && at=
	case $at in
CASES
	esac
	case " $takes " in *" $last "*) list= ;; esac
	compadd -- ${=list}
	_files
}
_PROGRAM "$@"
`

// powershellScript finds words; PowerShell completes files by itself where there are none.
const powershellScript = `Register-ArgumentCompleter -Native -CommandName PROGRAM, PROGRAM.exe -ScriptBlock {
	param($word, $tree, $position)
	$words = @{
CASES
	}
	$said = @($tree.CommandElements | Select-Object -Skip 1 | Where-Object { $_.Extent.EndOffset -lt $position } | ForEach-Object { "$_" })
	$list = $words["$($said | Select-Object -First 2)"]
	if ($null -eq $list) { $list = $words["$($said | Select-Object -First 1)"] }
	if ($null -eq $list) { $list = $words[''] }
	$list -split ' ' | Where-Object { $_ -and $_.StartsWith($word) } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`

// hash returns the entries of a table of PowerShell: by the first words, those that may follow.
func (p *Program) hash() string {
	var w strings.Builder
	for _, c := range append([]Page{{}}, p.Commands...) {
		fmt.Fprintf(&w, "\t\t'%s' = '%s'\n", c.Name, strings.Join(c.words(p.Commands), " "))
	}
	return w.String()
}

func (p *Program) fish() string {
	var w strings.Builder
	program := p.Name
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	for _, c := range p.Commands {
		words := strings.Fields(c.Name)
		when, name := "__fish_use_subcommand", words[0]
		if len(words) > 1 {
			when, name = "__fish_seen_subcommand_from "+words[0], words[1]
		}
		fmt.Fprintf(&w, "complete -c "+program+" -n %s -a %s -d %s\n", quote(when), name, quote(c.Summary))
		when = "__fish_seen_subcommand_from " + words[0]
		if len(words) > 1 {
			when += "; and __fish_seen_subcommand_from " + words[1]
		}
		for _, choice := range c.choices() {
			fmt.Fprintf(&w, "complete -c "+program+" -n %s -a %s\n", quote(when), quote(choice))
		}
		if c.Flags == nil {
			continue
		}
		c.Flags.VisitAll(func(f *flag.Flag) {
			arg, text := flag.UnquoteUsage(f)
			need := " -r"
			if arg == "" {
				need = ""
			}
			fmt.Fprintf(&w, "complete -c "+program+" -n %s -o %s%s -d %s\n", quote(when), f.Name, need, quote(text))
		})
	}
	return w.String()
}
