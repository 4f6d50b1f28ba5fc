package list

import (
	"fmt"
	"slices"
	"time"

	"shuultuur/list/files"
)

// Limits of the problems kept: per file, and in all. All are counted.
const (
	keptPerFile = 100
	keptInAll   = 1000
)

// A Report describes how the lines of a list were read. It is kept in the compiled file, so
// that it is available when nothing had to be compiled.
type Report struct {
	Name       string
	Entries    int            // distinct entries in the compiled file
	URLs       int            // of which have a path
	Exceptions int            // of which are exceptions
	Networks   int            // distinct networks, ranges counted by their networks
	Exprs      int            // regular expressions
	Rules      int            // adblock rules that are more than a host
	Cosmetics  int            // adblock rules that hide elements of pages, and scriptlets
	Categories map[string]int // entries of each category; one entry may be in several
	Outside    []string       `json:",omitempty"` // categories that the content names and may not
	As         FormatName     // format as which the source was read; ut1 for an archive with categories
	Lines      int            // lines read, including comments and empty ones
	Duplicates int            // entries that occurred before in the same category
	Bad        int            // refused lines or names
	Odd        int            `json:",omitempty"` // used lines that are not like entries of the format, which accepts any line
	Ignored    int            // lines, understood or not, that a list of names cannot use
	Problems   []Problem      // at most 100 per file and 1,000 in all
	Sources    []Source
	Looked     []files.Beside `json:",omitempty"` // files that a list of an ad blocker names beside it
	Bytes      int64          // size of the compiled file
	Took       time.Duration  // to read and write it
	Note       string         // why an older file was damaged and not kept
	Settings   string         // digest of the settings it was compiled with
	Reused     bool           `json:"-"` // unchanged: the existing file was kept
}

// IsEmpty reports whether the compiled file has nothing.
func (r *Report) IsEmpty() bool {
	return r.Entries+r.Networks+r.Exprs+r.Rules+r.Cosmetics == 0
}

// Useless returns why a list is a mistake that has lines of which none is an entry, nil if it is none.
// Comments alone, and rules for pages alone, are none.
func (r *Report) Useless() error {
	used := slices.ContainsFunc(r.Sources, func(s Source) bool { return s.Used > 0 })
	if used || r.Bad == 0 && (r.Ignored == 0 || r.As == Adblock) {
		return nil
	}
	first := ""
	if len(r.Problems) > 0 {
		first = "; " + r.Problems[0].String()
	}
	return fmt.Errorf("no line of it is an entry of the format %s: name its format, or leave it out%s", r.As, first)
}

// A Source is one file that was read.
type Source struct {
	Path    string // for a file in an archive, after the archive's path
	Format  string
	Lines   int
	Bad     int
	Ignored int
	Used    int         `json:",omitempty"` // what was read from it, duplicates included; 0 in a report of an older release
	Marks   files.Marks `json:",omitempty"` // of its content
}

// A Problem is a line that an administrator should look at.
type Problem = files.Problem
