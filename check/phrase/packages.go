package phrase

import (
	"bytes"
	"slices"
	"strings"

	"shuultuur/content"
	"shuultuur/filter"
)

// packageNames are the ends of names that software packages have. Nothing shows such a file before
// it is complete, so the words in it wait until its members have said what it is.
var packageNames = [...]string{
	".whl", ".egg", ".jar", ".war", ".ear", ".aar", ".crate", ".gem", ".nupkg", ".tgz", ".tar.gz", ".tar.bz2", ".tar.zst",
}

// passesOver reports whether the words of a body do not count, because it is a software package whose
// words no policy wants: source code is full of words that mean something else there.
func (c *Check) passesOver(t *filter.Transaction, b *content.Body) bool {
	switch {
	case t.Verdict.Packages:
		return false
	case b.Package():
		return true
	case b.Complete(), t.Request == nil:
		return false
	}
	name, _, _ := bytes.Cut(t.Request.Path, []byte("?"))
	lower := strings.ToLower(string(name))
	return slices.ContainsFunc(packageNames[:], func(end string) bool { return strings.HasSuffix(lower, end) }) && b.Archive()
}
