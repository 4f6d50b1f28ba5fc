package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"shuultuur/lib/sheet"
)

// CSV writes all tables, one line after the other, for spreadsheets (RFC 4180, in UTF-8). A
// name that a spreadsheet would take for a formula begins with an apostrophe.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"table", "name", "requests", "blocked", "minutes"})
	for _, t := range r.Tables() {
		for _, l := range t.Lines {
			minutes := ""
			if t.Time {
				minutes = strconv.FormatInt(l.Minutes, 10)
			}
			_ = c.Write([]string{strings.ToLower(t.Title), sheet.Cell(l.Name), strconv.FormatInt(l.Requests, 10), strconv.FormatInt(l.Blocked, 10), minutes})
		}
	}
	c.Flush()
	return c.Error() // the error of any write
}
