package literal

import "strings"

// FromPOSIX translates a POSIX expression to RE2's syntax. They differ in brackets, where a
// backslash is literal, and in the word boundaries of the GNU library.
func FromPOSIX(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case '<', '>':
				b.WriteString(`\b`)
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		case s[i] == '[':
			n := bracket(s[i:])
			b.WriteString(strings.ReplaceAll(s[i:i+n], `\`, `\\`))
			i += n - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// bracket returns the length of the bracket expression at the beginning of s.
func bracket(s string) int {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	for ; i < len(s) && s[i] != ']'; i++ {
		if s[i] == '[' && i+1 < len(s) && s[i+1] == ':' {
			if end := strings.Index(s[i:], ":]"); end > 0 {
				i += end + 1
			}
		}
	}
	return min(i+1, len(s))
}
