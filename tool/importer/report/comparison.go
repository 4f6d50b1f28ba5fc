package report

import (
	"bufio"
	"fmt"
)

// A Comparison is the result of asking the other program's rules and the settings made of them the
// same questions.
type Comparison struct {
	Of      string // what was asked
	Judged  int64
	Unknown []string     // parts of the rules that could not be asked; they counted as not matching
	Opened  []Difference // most frequent first
	Closed  []Difference
	Failed  string // why nothing was asked; "" if it was
}

// A Difference is one kind of question that is answered otherwise.
type Difference struct {
	Count        int64
	Was, Is      string // actions
	Policy, Rule string // that decide now, or did if nothing does now
	Examples     []string
}

// String returns the difference in one line.
func (d Difference) String() string {
	by := ""
	if d.Rule != "" {
		by = fmt.Sprintf(" (%s)", d.Rule)
	}
	s := fmt.Sprintf("%d times %s, was %s%s", d.Count, d.Is, d.Was, by)
	for i, e := range d.Examples {
		if i == 0 {
			s += ": " + e
			continue
		}
		s += ", " + e
	}
	return s
}

// maxDifferences is how many kinds of differences are listed for one comparison and effect.
const maxDifferences = 50

// Lines describes the comparison: its result, then what opens, then what closes.
func (c Comparison) Lines() (all []string) {
	if c.Failed != "" {
		return []string{fmt.Sprintf("%s: not compared: %s", c.Of, c.Failed)}
	}
	opened, closed := total(c.Opened), total(c.Closed)
	all = []string{fmt.Sprintf("%d %s: %d allowed now and refused before, %d refused now and allowed before", c.Judged, c.Of, opened, closed)}
	for _, half := range []struct {
		title string
		diffs []Difference
	}{{"allowed now", c.Opened}, {"refused now", c.Closed}} {
		for i, d := range half.diffs {
			if i == maxDifferences {
				all = append(all, fmt.Sprintf("  … and %d more kinds", len(half.diffs)-i))
				break
			}
			all = append(all, fmt.Sprintf("  %s: %s", half.title, d))
		}
	}
	for _, u := range c.Unknown {
		all = append(all, "  not asked: "+u)
	}
	return all
}

func total(all []Difference) (n int64) {
	for _, d := range all {
		n += d.Count
	}
	return n
}

// opens reports whether a comparison found something that is allowed now and was refused.
func (r *Report) opens() bool {
	for _, c := range r.Comparisons {
		if len(c.Opened) > 0 {
			return true
		}
	}
	return false
}

// comparisons writes what asking both rule sets gave.
func (r *Report) comparisons(b *bufio.Writer) {
	if len(r.Comparisons) == 0 {
		return
	}
	fmt.Fprintf(b, "\nAsked both: %s and the new settings\n", r.Program)
	for _, c := range r.Comparisons {
		for _, l := range c.Lines() {
			fmt.Fprintf(b, "  %s\n", l)
		}
	}
}
