package web

import (
	"fmt"
	"slices"
	"strings"
)

// A DiffLine is a line of a comparison.
type DiffLine struct {
	Kind string `json:"kind"` // "add", "del", "at" for omitted lines, "" for an unchanged one
	Text string `json:"text"`
}

const (
	around   = 3 // lines that are shown beside those that change
	maxTable = 4 << 20
)

// Diff compares two texts by lines. For equal texts it returns nothing.
func Diff(was, is string) []DiffLine {
	if was == is {
		return nil
	}
	a, b := strings.Split(strings.TrimSuffix(was, "\n"), "\n"), strings.Split(strings.TrimSuffix(is, "\n"), "\n")
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []DiffLine
	for _, l := range a[:head] {
		all = append(all, DiffLine{Text: l})
	}
	all = append(all, changedLines(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, DiffLine{Text: l})
	}
	return folded(all)
}

// changedLines compares changed lines by the longest common subsequence. For
// texts too long for that, all lines are removed and added.
func changedLines(a, b []string) (all []DiffLine) {
	i, j := 0, 0
	if len(a)*len(b) <= maxTable {
		long := make([][]int32, len(a)+1)
		for i := range long {
			long[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					long[i][j] = long[i+1][j+1] + 1
				} else {
					long[i][j] = max(long[i+1][j], long[i][j+1])
				}
			}
		}
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				all = append(all, DiffLine{Text: a[i]})
				i++
				j++
			case long[i+1][j] >= long[i][j+1]:
				all = append(all, DiffLine{"del", a[i]})
				i++
			default:
				all = append(all, DiffLine{"add", b[j]})
				j++
			}
		}
	}
	for _, l := range a[i:] {
		all = append(all, DiffLine{"del", l})
	}
	for _, l := range b[j:] {
		all = append(all, DiffLine{"add", l})
	}
	return all
}

// folded leaves out unchanged lines that are far from changed ones.
func folded(all []DiffLine) (out []DiffLine) {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Kind != "" {
			for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	for i := 0; i < len(all); {
		if near[i] {
			out = append(out, all[i])
			i++
			continue
		}
		n := slices.Index(near[i:], true)
		if n < 0 {
			n = len(all) - i
		}
		out = append(out, DiffLine{"at", fmt.Sprintf("… %d lines", n)})
		i += n
	}
	return out
}
