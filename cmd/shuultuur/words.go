package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"

	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
	"shuultuur/tool/words"
)

const wordsHelp = `
Reads a page as the phrase check does and says what authors of lists want to
know: its language, its words by their stems, and what each phrase list makes of
it. The lists are those of the settings, or those given with -list. FILE may be
"-" for standard input; a URL is fetched from here, past the gateway.

It also names the lines that do nothing: phrases that can never match, and those
that another line overrules. With -harmless, a page or a folder of pages that
should pass, it names phrases that are on too many of them, and pages that the
lists score above the limit. The exit status is 1 if there is such a line or page.`

func wordsCommand(ctx context.Context, e env, args []string) int {
	var q words.Question
	f, parse := flags(e, "words", "[flags] FILE|URL", wordsHelp)
	config := f.String("config", "", "settings `file` (default shuultuur.yaml, else data/starter/shuultuur.yaml)")
	var lists []string
	f.Func("list", "a phrase list `file` instead of those of the settings; may be repeated", arguments.Add(&lists))
	f.StringVar(&q.Media, "type", "", "media `type` of the page (default by its fields or name, then by its bytes)")
	harmless, share := harmlessFlags(f)
	f.IntVar(&q.Top, "top", 25, "print so many stems, 0 for all")
	f.BoolVar(&q.Disguised, "disguised", false, "look for disguised words too")
	asJSON := f.Bool("json", false, "print one JSON object")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	var err error
	if q.Lists, err = phraseLists(e, *config, lists); err != nil {
		return fail(e, err)
	}
	q.Page, q.Harmless, q.Share = f.Arg(0), *harmless, *share
	x, err := words.Examine(ctx, q)
	if err != nil {
		return fail(e, err)
	}
	write := x.Text
	if *asJSON {
		write = x.JSON
	}
	if err := write(e.stdout); err != nil {
		return fail(e, err)
	}
	if x.Faulty() {
		return 1
	}
	return 0
}

// harmlessFlags defines the flags for pages on which phrase lists are tried.
func harmlessFlags(f *flag.FlagSet) (pages *[]string, share *float64) {
	pages = new([]string)
	f.Func("harmless", "a `page` that phrase lists should let pass, or a folder of pages; may be repeated", arguments.Add(pages))
	return pages, f.Float64("share", 5, "`percentage` of the harmless pages that a phrase may be on")
}

// phraseLists returns the phrase lists in files or, if there are none, those of the settings.
func phraseLists(e env, config string, files []string) (words.Lists, error) {
	l := words.Lists{Read: func(file string) ([]byte, error) { return readPage(e, file) }}
	if len(files) > 0 {
		for _, file := range files {
			path, err := filepath.Abs(file)
			if err != nil {
				return l, err
			}
			l.Config.Weighted = append(l.Config.Weighted, setting.File(path))
		}
		var err error
		l.Dir, err = os.Getwd()
		return l, err
	}
	file := usualFile(config)
	if file == "" {
		return l, errors.New("there is no shuultuur.yaml here: give settings with -config, or phrase lists with -list")
	}
	s, err := configuration.Read(file)
	if err != nil {
		return l, err
	}
	if s.Checks.Phrase == nil {
		return l, errors.New("the settings have no phrase lists: give some with -list, or write checks.phrase into the settings")
	}
	l.Config, l.Dir = *s.Checks.Phrase, filepath.Dir(file)
	return l, nil
}

// lintPhraseLists prints useless entries of phrase lists: those in files, or those of the
// settings if these have some. It returns the exit status.
func lintPhraseLists(ctx context.Context, e env, config string, files, harmless []string, share float64) int {
	if len(files) == 0 {
		if s, err := configuration.Read(config); err != nil || s.Checks.Phrase == nil {
			return 0 // the mistakes in the settings were printed
		}
	}
	l, err := phraseLists(e, config, files)
	if err != nil {
		return fail(e, err)
	}
	l.Harmless, l.Share = harmless, share
	n, err := l.Lint(ctx, e.stdout)
	if err != nil {
		return fail(e, err)
	}
	return min(n, 1)
}
