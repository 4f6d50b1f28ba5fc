package release

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// versions matches the versions of semver.org 2.0.0, with or without a v in front.
var versions = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]{1,100}))?(?:\+[0-9A-Za-z.-]{1,100})?$`)

// past matches the suffix that git-describe appends to a tag for a revision behind
// it.
var past = regexp.MustCompile(`-\d+-g[0-9a-f]{7,40}$`)

// IsVersion reports whether a text is a version such as 1.4.0 or v2.0.0-rc.1.
func IsVersion(v string) bool { return versions.MatchString(v) }

// Newer reports whether version a is newer than b (semver.org 2.0.0, section 11). A text that
// is no version, such as "devel", is never newer and never older. A revision behind a tag
// counts as the tag.
func Newer(a, b string) bool {
	x, y := versions.FindStringSubmatch(past.ReplaceAllString(a, "")), versions.FindStringSubmatch(past.ReplaceAllString(b, ""))
	if x == nil || y == nil {
		return false
	}
	for i := 1; i <= 3; i++ {
		if c := compareNumbers(x[i], y[i]); c != 0 {
			return c > 0
		}
	}
	return comparePreviews(x[4], y[4]) > 0
}

func compareNumbers(a, b string) int {
	n, _ := strconv.Atoi(a) // at most nine digits
	m, _ := strconv.Atoi(b)
	return cmp.Compare(n, m)
}

// comparePreviews compares the suffixes after the numbers, such as rc.1. A version without
// suffix is newer than with one.
func comparePreviews(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		n, notNumber := strconv.ParseUint(x[i], 10, 64)
		m, notOther := strconv.ParseUint(y[i], 10, 64)
		var c int
		switch {
		case notNumber == nil && notOther == nil:
			c = cmp.Compare(n, m)
		case notNumber == nil:
			c = -1
		case notOther == nil:
			c = 1
		default:
			c = cmp.Compare(x[i], y[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
