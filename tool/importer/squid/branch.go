package squid

import (
	"slices"
	"strings"

	"shuultuur/tool/importer/report"
)

// branches is the nesting of if and else in a file: for each level, whether its lines
// count.
type branches []bool

// take reads a line that begins or ends a branch, or is in one that does not count.
func (b *branches) take(f []string) (n *report.Note, done bool) {
	taken := !slices.Contains(*b, false)
	switch last := len(*b) - 1; {
	case f[0] == "if":
		*b = append(*b, isTrue(f[1:]))
	case f[0] == "else" && last >= 0:
		(*b)[last] = !(*b)[last]
	case f[0] == "endif" && last >= 0:
		*b = (*b)[:last]
	default:
		return &report.Note{Kind: report.Default, Why: "in a branch that the first process does not take"}, !taken
	}
	return report.Same("its lines, as the first process reads them"), true
}

// isTrue reports whether a condition holds for the first process.
func isTrue(f []string) bool {
	text := strings.NewReplacer("${process_number}", "1", "${service_name}", "squid", " ", "").Replace(strings.Join(f, ""))
	a, b, compared := strings.Cut(text, "=")
	return compared && a == b || text == "true"
}
