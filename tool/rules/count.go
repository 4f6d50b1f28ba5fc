//go:build !small

package rules

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"shuultuur/lib/suricata/rule"
)

// Counts are the rules of rule files by their properties.
type Counts struct {
	By       map[string]map[string]int `json:"by"` // property, then its value
	Mistakes int                       `json:"mistakes"`
	Rules    int                       `json:"rules"`
}

// Count reads rule files.
func Count(files ...string) (*Counts, error) {
	p := rule.NewParser()
	p.Options = true
	rules, mistakes, err := p.ReadFiles(files...)
	if err != nil {
		return nil, err
	}
	count := map[string]map[string]int{"action": {}, "protocol": {}, "class": {}, "keyword": {}, "counts": {}}
	for _, r := range rules {
		count["action"][r.Action.String()]++
		count["protocol"][r.Proto]++
		count["class"][r.Class]++
		seen := map[string]bool{}
		for _, o := range r.Options {
			if !seen[o.Name] {
				seen[o.Name] = true
				count["keyword"][o.Name]++
			}
		}
		switch {
		case r.Skip != "":
			count["counts"]["not for this version"]++
		case len(r.Foreign) > 0:
			count["counts"]["inactive"]++
		case len(r.Packet) > 0:
			count["counts"]["captures only"]++
		default:
			count["counts"]["gateway and captures"]++
		}
	}
	return &Counts{count, len(mistakes), len(rules)}, nil
}

// Text writes the counts for people.
func (c *Counts) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%d rules, %d mistakes\n", c.Rules, c.Mistakes)
	for _, by := range []string{"counts", "action", "protocol", "class", "keyword"} {
		fmt.Fprintf(b, "\n%s\n", by)
		m := c.By[by]
		for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], cmp.Compare(a, b)) }) {
			fmt.Fprintf(b, "%8d  %s\n", m[k], k)
		}
	}
	return b.Flush()
}

// JSON writes the counts as one object.
func (c *Counts) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}
