package whatif

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A Printer writes a report for people, and keeps the first error of several writes.
type Printer struct {
	W   io.Writer
	Err error
}

// F writes formatted text.
func (p *Printer) F(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.W, format, args...)
	}
}

// Text describes the input.
func (in *Input) Text(p *Printer) {
	p.F("%s: %d lines, %d requests, %d other, %d broken\n", Printable(strings.Join(in.Files, " ")), in.Lines, in.Requests, in.Other, in.Broken)
	for _, e := range in.Examples {
		p.F("  %s\n", Printable(e))
	}
	if more := in.Broken - int64(len(in.Examples)); more > 0 && len(in.Examples) > 0 {
		p.F("  and %d more\n", more)
	}
}

// Printable prevents text in a log from controlling the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, s)
}

// WriteJSON writes a report for machines.
func WriteJSON(w io.Writer, report any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(report)
}
