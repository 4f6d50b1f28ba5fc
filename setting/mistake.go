package setting

import (
	"strconv"
	"strings"
)

// A Mistake is one thing wrong with the settings file.
type Mistake struct {
	File string
	Line int    // 0 when it has no place in the file
	Key  string // path to the setting, "policies[0].rules[1].action"
	Text string // what is wrong and what to write instead
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

// Mistakes are everything wrong with a settings file that could be found in
// one reading.
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
