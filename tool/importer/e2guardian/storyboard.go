package e2guardian

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// preauth compares the storyboard that runs before users are known with the shipped one.
func preauth(c *folder, o option) *report.Note {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		return report.None("the file is not there; storyboards are not run, and rules are in the order they are shipped with")
	}
	if data, err := input.Whole(path); err == nil && digest(data) == shipped["preauth.story"] {
		return report.Same("the order of rules")
	}
	return report.None("storyboards are not run, and this one is not the one of e2guardian 5.3.5: write what it allows as a rule with action: allow at the top of each policy")
}

// shipped has the SHA-256 digests of the storyboards that e2guardian 5.3.5 ships.
var shipped = map[string]string{
	"site.story":    "ba33ba2bb8f623cd4407fb65ef2e3c419e77fada8085a08bac734de988a568cb",
	"preauth.story": "d5e391e9fbed9376caa79392723c09a0e3a2b15f20225b0ddeb7d58b076701d5",
	"common.story":  "ce14b606a9db5b6ef0a6f4cb157429c93f43fb1b31054528d804688b3df32269",
}

// story converts the blanket blocks in a group's storyboard, which the shipped storyboard
// leaves to the administrator, and reports other changes in it.
func (c *folder) story(o option, ban string, unless []string, add func(policy.Rule)) {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: o.Place, What: o.Text, Why: "the file is not there"})
		return
	}
	functions, err := c.functions(path)
	if err != nil {
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: o.Place, What: o.Text, Why: err.Error()})
		return
	}
	changed := 0
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		for _, l := range functions[name] {
			n := &report.Note{Kind: report.Lost, Place: l, What: fmt.Sprintf("function %s: %s", name, l.Text), Why: "storyboards are not run"}
			switch {
			case name == "checkblanketblock" && strings.HasPrefix(l.Text, "if(true"):
				n.Kind, n.Ours, n.Why = report.Carried, `rule "blanket block"`, ""
				add(policy.Rule{Name: "blanket block", Action: ban, Unless: unless})
			case name == "checkblanketblock" && strings.HasPrefix(l.Text, "if(siteisip"):
				n.Kind, n.Ours, n.Why = report.Carried, `rule "addresses"`, ""
				add(policy.Rule{Name: "addresses", Action: ban, Category: c.w.Addresses(), Unless: unless})
			case name == "checkrequest" && strings.HasPrefix(l.Text, "if(true") && strings.HasSuffix(l.Text, "setexception"):
				n.Kind, n.Ours, n.Why = report.Changed, "nothing", "everything would be allowed: write a rule without conditions and with action: allow if you want that"
			}
			changed++
			c.w.Report.Add(n)
		}
	}
	if changed == 0 {
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "the order of rules"})
	}
}

// functions returns the lines of each function in a group's storyboard. The shipped storyboard
// has only empty functions; the files that it includes are compared with the shipped ones.
func (c *folder) functions(path string) (map[string][]report.Place, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, name, lines := map[string][]report.Place{}, "", 0
	return all, input.EachLine(path, f, func(n int, s []byte) error {
		at := report.Place{File: path, Line: n, Text: string(s)}
		if inc, ok := includes(s); ok {
			c.compareStory(inc, at)
			return nil
		}
		switch {
		case s[0] == '#':
		case bytes.HasPrefix(s, []byte("function(")):
			name = strings.TrimRight(string(s[len("function("):]), ")")
		case name != "" && string(s) != "end()" && lines < 1000:
			lines++
			all[name] = append(all[name], at)
		}
		return nil
	})
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (c *folder) compareStory(name string, at report.Place) {
	path, ok := c.locate(name, c.dir)
	base := filepath.Base(path)
	want, known := shipped[base]
	if !known {
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: at.Text, Why: "storyboards are not run, and this one is not one that is shipped"})
		return
	}
	if !ok {
		return
	}
	data, err := input.Whole(path)
	if err != nil || digest(data) != want {
		c.w.Report.Add(&report.Note{Kind: report.Changed, Place: report.Place{File: path}, What: base, Ours: "the order of rules",
			Why: "it is not the one of e2guardian 5.3.5: if it was edited, look at the order of the rules; one of another version says the same"})
	}
}
