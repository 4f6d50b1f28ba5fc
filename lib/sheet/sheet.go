// Package sheet makes CSV (RFC 4180) safe for spreadsheets, and readable by them.
//
// Texts that strangers choose pass through [Cell] on their way into a row. A file that people open
// in a spreadsheet begins with [Mark].
package sheet

import (
	"strings"
	"unicode/utf8"
)

// Mark is a byte order mark. Without it, some spreadsheets take UTF-8 for the code page of the system;
// programs take it for a part of the first name.
const Mark = "\ufeff"

// Cell returns a text that no spreadsheet takes for a formula: with an apostrophe before it if it begins
// like one, in wide forms, too.
func Cell(s string) string {
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + s
	}
	return s
}
