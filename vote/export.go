package vote

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/ascii"
	"shuultuur/lib/sheet"
)

// Export writes cases for the maintainer of a list: as "json", "csv" or "text",
// which can be sent as a mail. It omits names and addresses of voters.
func Export(w io.Writer, format string, cases []Case) error {
	for n := range cases {
		cases[n].Examples = append([]Example(nil), cases[n].Examples...)
		for i := range cases[n].Examples {
			e := &cases[n].Examples[i]
			e.Voter, e.Groups, e.Policy = "", "", ""
		}
	}
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(cases)
	case "csv":
		return exportCSV(w, cases)
	case "text":
		return exportText(w, cases)
	}
	return fmt.Errorf(`%.40q is not a format of exports; write "text", "csv" or "json"`, format)
}

func exportCSV(w io.Writer, cases []Case) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"vote", "host", "category", "remedy", "votes", "people", "first", "last", "example", "comment"})
	for _, c := range cases {
		var e Example
		if len(c.Examples) > 0 {
			e = c.Examples[0]
		}
		row := []string{c.Kind, c.Host, c.Category, c.Remedy, strconv.FormatInt(c.Votes, 10), strconv.FormatInt(c.People, 10),
			c.First.UTC().Format(time.RFC3339), c.Last.UTC().Format(time.RFC3339), e.URL, e.Comment}
		for n, s := range row {
			row[n] = sheet.Cell(s)
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

func exportText(w io.Writer, cases []Case) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Dear maintainer,\n\npeople here have voted on entries of your list.\n")
	for _, c := range cases {
		says := "is blocked and should not be"
		if c.Kind == Dangerous.String() {
			says = "is not blocked and should be"
		}
		fmt.Fprintf(&b, "\n%s %s\n  entry: %s\n  %d people, %d votes, %s to %s\n", ascii.OneLine(c.Host), says, ascii.OneLine(c.Remedy), c.People, c.Votes,
			c.First.UTC().Format(time.DateOnly), c.Last.UTC().Format(time.DateOnly))
		for _, e := range c.Examples {
			fmt.Fprintf(&b, "  %s\n", ascii.OneLine(e.URL))
			if e.Comment != "" {
				fmt.Fprintf(&b, "    %q\n", e.Comment)
			}
		}
	}
	b.WriteString("\nWith kind regards\n")
	_, err := io.WriteString(w, b.String())
	return err
}
