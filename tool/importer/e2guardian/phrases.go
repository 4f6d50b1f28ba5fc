package e2guardian

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shuultuur/check/phrase"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// sharedPhrases makes the phrase check from the first group that has phrase lists.
func sharedPhrases(c *folder, groups []filterGroup, opts map[string]option) {
	phrases := ""
	for _, g := range groups {
		switch s := phraseFiles(g.opts); {
		case s == "":
		case s == phrases:
			for _, name := range []string{"weightedphraselist", "bannedphraselist", "exceptionphraselist"} {
				for _, o := range g.opts[name].every() {
					c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "checks.phrase, as of another group"})
				}
			}
		case phrases == "":
			phrases = s
			c.phrases(g.opts, opts)
		default:
			n := report.None("there is one set of phrase lists for all; this group is judged by those of the first that has any, with its own limit")
			n.Place, n.What = g.opts["weightedphraselist"].Place, fmt.Sprintf("phrase lists of filter group %d", g.number)
			c.w.Report.Add(n.Opening())
		}
	}
}

// phraseFiles returns the phrase options of a group, for comparing groups.
func phraseFiles(opts map[string]option) string {
	all := ""
	for _, name := range []string{"weightedphraselist", "bannedphraselist", "exceptionphraselist"} {
		for _, o := range opts[name].every() {
			all += o.value + "\n"
		}
	}
	return strings.Trim(all, "\n")
}

// phrases makes the phrase check.
func (c *folder) phrases(opts, global map[string]option) {
	out := &phrase.Config{Compat: c.compat(), NaughtynessLimit: number(opts, "naughtynesslimit", 0)}
	cfg := phrase.Config{Compat: out.Compat, NaughtynessLimit: out.NaughtynessLimit}
	any := false
	for _, l := range []struct {
		option string
		to     *[]setting.File
		check  *[]setting.File
	}{{"weightedphraselist", &out.Weighted, &cfg.Weighted}, {"bannedphraselist", &out.Banned, &cfg.Banned}, {"exceptionphraselist", &out.Exception, &cfg.Exception}} {
		for _, o := range opts[l.option].every() {
			path, ok := phraseFile(c, o)
			if !ok {
				continue
			}
			any = true
			*l.check = append(*l.check, setting.File(path))
			if rel, err := filepath.Rel(c.w.To, path); err == nil && filepath.IsLocal(rel) {
				path = rel
			}
			*l.to = append(*l.to, setting.File(path))
		}
	}
	if !any {
		return
	}
	for _, n := range []struct {
		name string
		to   **int
		cfg  **int
		most int
	}{{"weightedphrasemode", &out.WeightedPhraseMode, &cfg.WeightedPhraseMode, 2}, {"phrasefiltermode", &out.PhraseFilterMode, &cfg.PhraseFilterMode, 3}, {"preservecase", &out.PreserveCase, &cfg.PreserveCase, 2}} {
		o, ok := opts[n.name]
		if !ok {
			o, ok = global[n.name]
		}
		if v, err := strconv.Atoi(o.value); ok && err == nil && v >= 0 && v <= n.most {
			*n.to, *n.cfg = &v, &v
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "checks.phrase." + n.name})
		}
	}
	if o, ok := global["hexdecodecontent"]; ok {
		on := o.value == "on"
		out.HexDecodeContent, cfg.HexDecodeContent = &on, &on
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "checks.phrase.hexdecodecontent"})
	}
	check, err := phrase.New(cfg, c.w.To, time.Now)
	if err != nil {
		c.refuses(opts["weightedphraselist"].Place, "phrase lists", err.Error())
		return
	}
	for _, m := range check.Remarks() {
		file := m.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.w.To, file)
		}
		if from, copied := c.w.Origin[file]; copied {
			file = from
		}
		c.w.Report.Add(&report.Note{Kind: report.Line, Place: report.Place{File: file, Line: m.Line}, What: m.Text, Mend: m.Mend})
	}
	c.w.Set.Checks.Phrase = out
}

// lostPhrases reports phrases that cannot be read.
func (c *folder) lostPhrases(o option, why string) {
	if o.name == "exceptionphraselist" {
		c.w.Report.Add((&report.Note{Kind: report.Lost, Place: o.Place, What: o.Text, Why: why}).Closing())
		return
	}
	c.refuses(o.Place, o.Text, why)
}

// phraseFile finds a file of phrases, and copies it if its includes are
// elsewhere.
func phraseFile(c *folder, o option) (path string, ok bool) {
	if o.value == "" {
		c.w.Report.Add(&report.Note{Kind: report.Default, Place: o.Place, What: o.Text})
		return "", false
	}
	from, ok := c.locate(o.value, c.dir)
	if !ok {
		c.lostPhrases(o, "the file is not there")
		return "", false
	}
	seen := map[string]report.Place{}
	t, err := c.walk(from, func(at report.Place, s []byte) { c.phraseTwice(seen, at, s) })
	path = from
	if err == nil && t.mend {
		path, err = c.copyTree(c.w.FreeName(filepath.Base(from)), from)
	}
	if err != nil {
		c.lostPhrases(o, err.Error())
		return "", false
	}
	if c.short[from] {
		c.lostPhrases(o, "some of its includes are not there: copy them beside the settings and import again")
	}
	note := &report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "checks.phrase"}
	if path != from {
		note.Kind, note.Why = report.Changed, "copied, as some of its includes are not where it says"
	}
	c.w.Report.Add(note)
	return path, true
}

// phraseTwice reports a repeated phrase; only the greater weight counts.
func (c *folder) phraseTwice(seen map[string]report.Place, at report.Place, s []byte) {
	if s[0] != '<' {
		return
	}
	c.w.Report.Lines++
	text, _, _ := bytes.Cut(bytes.ToLower(s), []byte("><"))
	key := string(bytes.TrimSuffix(text, []byte(">")))
	if before, twice := seen[key]; twice {
		c.w.Report.Duplicates++
		c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("phrase %q is already in %s", key+">", before), Why: "the greater weight counts; weights are not added"})
		return
	}
	if len(seen) < build.MaxKeys {
		seen[key] = at
	}
	c.w.Report.Entries++
}

func (c *folder) phraseRules(opts map[string]option, ban string, add func(policy.Rule)) {
	if c.w.Set.Checks.Phrase == nil || phraseFiles(opts) == "" {
		if o, ok := opts["naughtynesslimit"]; ok {
			c.w.Report.Add(&report.Note{Kind: report.Default, Place: o.Place, What: o.Text, Why: "the group has no phrase lists, so no page reaches the limit"})
		}
		return
	}
	standard := 50
	if c.compat() == "e2guardian-5.5" {
		standard = 60
	}
	limit := max(number(opts, "naughtynesslimit", standard), 0)
	if o, ok := opts["naughtynesslimit"]; ok {
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: fmt.Sprintf("rule \"weighted phrases\", over: %d", limit)})
	}
	add(policy.Rule{Name: "exception phrases", Action: "allow", Category: []string{"exceptionphrase"}})
	add(policy.Rule{Name: "banned phrases", Action: ban, Category: []string{"bannedphrase"}})
	add(policy.Rule{Name: "weighted phrases", Action: ban, Category: []string{"phrase"}, Over: &limit})
}
