package list

import (
	"fmt"
	"time"
)

// Most problems kept: of one file, and of all. All are counted.
const (
	keptPerFile = 100
	keptInAll   = 1000
)

// A Report says what became of a list's lines. It is kept in the compiled
// file, so that it can be asked for when nothing had to be compiled.
type Report struct {
	Name       string
	Entries    int            // different entries in the compiled file
	URLs       int            // of which have a path
	Exceptions int            // of which are exceptions
	Networks   int            // different networks, ranges counted by the networks they are made of
	Exprs      int            // regular expressions
	Rules      int            // adblock rules that are more than a host
	Cosmetics  int            // adblock rules that hide elements of pages, and scriptlets
	Categories map[string]int // entries of each category; one entry may be in several
	Lines      int            // lines read, comments and empty ones too
	Duplicates int            // entries that were there already, in the same category
	Bad        int            // lines or names refused
	Ignored    int            // lines understood or not that a list of names has no use for
	Problems   []Problem      // at most 100 for each file and 1,000 in all
	Sources    []Source
	Bytes      int64         // size of the compiled file
	Took       time.Duration // to read and write it
	Note       string        // why an older file could not be kept, when it was damaged
	Settings   string        // digest of the settings it was compiled with
	Reused     bool          `json:"-"` // nothing had changed: the file was there already
}

// A Source is one file that was read.
type Source struct {
	Path    string // a file inside an archive follows the archive's path
	Format  string
	Lines   int
	Bad     int
	Ignored int
}

// A Problem is a line an administrator should look at.
type Problem struct {
	File   string
	Line   int // from 1; 0 when it is about the whole file
	Reason string
	Kept   bool // a remark: the entry is in the list all the same
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Reason
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// quote quotes a piece of input for a message, the beginning of it if it is
// long.
func quote[T string | []byte](s T) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q…", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
