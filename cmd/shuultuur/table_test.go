package main

import (
	"bytes"
	"context"
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/manual"
)

// try runs a command that must end by itself, under another program name.
func try(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	status = dispatch(ctx, env{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, program: "/opt/bin/filter"}, args)
	if ctx.Err() != nil {
		t.Errorf("the command %q does not end", args)
	}
	return status, stdout.String(), stderr.String()
}

// swapped misspells a word by swapping two letters in its middle.
func swapped(word string) string {
	b := []byte(word)
	for i := len(b) / 2; i+1 < len(b); i++ {
		if b[i] != b[i+1] {
			b[i], b[i+1] = b[i+1], b[i]
			return string(b)
		}
	}
	return word + "x"
}

// TestEveryCommandRefusesWhatItDoesNotKnow tries every command of the table: help in any place,
// unknown and misspelt flags, too many arguments, misspelt subcommands, and the name of the
// program.
func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Chdir(t.TempDir()) // this folder has no settings
	all := pages(t.Context(), commands(), "")
	ours := regexp.MustCompile(`(^|[^/\w.-])shuultuur ([a-z-]+)`)
	for _, p := range all {
		words := strings.Fields(p.Name)
		for _, args := range [][]string{{"-h"}, {"--help"}, {"a", "-h"}, {"-h", "a"}, {"a", "b", "c", "d", "--help"}} {
			status, out, errs := try(t, slices.Concat(words, args)...)
			if group := slices.ContainsFunc(all, func(x manual.Page) bool { return strings.HasPrefix(x.Name, p.Name+" ") }); group && args[0] == "a" {
				continue // it is looked for as a subcommand
			}
			if status != 0 || !strings.HasPrefix(out, "Usage: /opt/bin/filter "+p.Name) {
				t.Errorf("%s %q: status %d, want help; output %.80q, errors %.200q", p.Name, args, status, out, errs)
			}
			for _, m := range ours.FindAllStringSubmatch(out, -1) {
				if slices.ContainsFunc(commands(), func(c command) bool { return c.name == m[2] }) {
					t.Errorf("%s -h names the program %q, which was started as /opt/bin/filter", p.Name, m[0])
				}
			}
		}
		for _, args := range [][]string{{"-nosuchflag"}, {"a", "--nosuchflag"}, {"a", "-nosuchflag=1", "b"}} {
			if words[0] == "events" && args[0] == "a" {
				continue // for events it is a word that the filter excludes
			}
			if status, out, errs := try(t, slices.Concat(words, args)...); status != 2 || out != "" || errs == "" {
				t.Errorf("%s %q: status %d, want 2 and an error; output %.80q, errors %.200q", p.Name, args, status, out, errs)
			}
		}
		if p.Flags == nil {
			continue
		}
		p.Flags.VisitAll(func(f *flag.Flag) {
			wrong := swapped(f.Name)
			if len(f.Name) < 4 || p.Flags.Lookup(wrong) != nil {
				return
			}
			if status, _, errs := try(t, append(words, "-"+wrong)...); status != 2 || !strings.Contains(errs, "did you mean -"+f.Name+"?") {
				t.Errorf("%s -%s: status %d, %.200q, want a hint at -%s", p.Name, wrong, status, errs, f.Name)
			}
		})
		if strings.Contains(p.Args, "...") || strings.Contains(p.Args, "FILTER") || strings.Contains(p.Args, "COMMAND") {
			continue // any number of arguments
		}
		status, _, errs := try(t, append(words, "1", "2", "3", "4", "5", "6")...)
		if status != 2 || !strings.Contains(errs, "too many") && !strings.Contains(errs, "one of") && !strings.Contains(errs, "there is no command") {
			t.Errorf("%s with six arguments: status %d, want 2: %.300q", p.Name, status, errs)
		}
	}
	for _, p := range all {
		words := strings.Fields(p.Name)
		wrong := append(slices.Clone(words[:len(words)-1]), swapped(words[len(words)-1]))
		if len(words[len(words)-1]) < 4 || words[0] == "events" && len(words) > 1 {
			continue // for events it is a word of the filter
		}
		if status, _, errs := try(t, wrong...); status != 2 || !strings.Contains(errs, "did you mean") {
			t.Errorf("%q: status %d, %.200q, want a hint at %s", wrong, status, errs, p.Name)
		}
	}
}
