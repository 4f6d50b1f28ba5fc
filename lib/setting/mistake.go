package setting

import (
	"strconv"
	"strings"
)

// A Mistake is a mistake in the settings file.
type Mistake struct {
	File string
	Line int    // 0 if it has no place in the file
	Key  string // path to the setting, "policies[0].rules[1].action"
	Text string // the mistake and how to correct it
}

func (m Mistake) String() string {
	s := m.File + ":"
	if m.Line > 0 {
		s += strconv.Itoa(m.Line) + ":"
	}
	if m.Key != "" {
		s += " " + m.Key + ":"
	}
	return s + " " + m.Text
}

// Mistakes are all mistakes found in one reading of a settings file.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	var b strings.Builder
	for i, x := range m {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(x.String())
	}
	return b.String()
}
