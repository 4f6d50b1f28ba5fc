// Package squidguard imports squidGuard.conf: sources become policies, destinations lists, and the
// words of a pass line rules. Times become schedules.
package squidguard

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// config is the import of a squidGuard.conf.
type config struct {
	w        *build.Work
	file, db string
	times    map[string]*calendar
	dests    map[string]*dest
	sources  []*source
	acls     map[string]*acl // by source
	refused  []policy.Rule   // what sources refuse whose clients are not known
}

type dest struct {
	name       string
	categories []string
	redirect   string
	when       *calendar // nil means always
	lost       bool      // it has lists that are not there, or that do not compile
}

type source struct {
	name            string
	networks, users []string
	within          string
	outside         bool
	unknown         bool // it has clients, or conditions on them, that are not known
	report.Place
}

// An acl sets the rights of a source at a time, and otherwise.
type acl struct {
	within   string
	outside  bool
	then     branch
	hasElse  bool
	elseThen branch
	report.Place
}

type branch struct {
	pass     []string
	redirect string
	safe     bool // a rewrite makes search engines safe
	report.Place
}

func Import(w *build.Work, file string) error {
	file = input.In(file, "squidGuard.conf")
	all, err := statements(file)
	if err != nil {
		return err
	}
	q := &config{w: w, file: file, db: filepath.Dir(file), times: map[string]*calendar{}, dests: map[string]*dest{}, acls: map[string]*acl{}}
	safe := map[string]bool{}
	for i := 0; i < len(all); i++ {
		s := all[i]
		body := all[i+1:]
		if s.end == '{' {
			n := blockEnd(body)
			if n < 0 {
				return fmt.Errorf("%s: the block is not closed", s.Place)
			}
			body, i = body[:n], i+1+n
		}
		name := ""
		if len(s.words) > 1 {
			name = s.words[1]
		}
		switch {
		case len(s.words) == 0:
		case s.end == '\n' && s.words[0] == "dbhome" && name != "":
			q.db = input.Find(filepath.Dir(file), name)
			w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "path of lists"})
		case s.end == '\n':
			w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: whyNoLine(s.words[0])})
		case s.words[0] == "time" && name != "":
			q.time(name, body)
		case (s.words[0] == "src" || s.words[0] == "source") && name != "":
			q.source(name, s, body)
		case (s.words[0] == "dest" || s.words[0] == "destination") && name != "":
			if err := q.dest(name, s, body); err != nil {
				return err
			}
		case (s.words[0] == "rew" || s.words[0] == "rewrite") && name != "":
			safe[name] = q.rewrite(name, s, body)
		case s.words[0] == "acl":
			q.acl(body, safe)
		case s.words[0] == "else":
			w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: "the block before applies at its time, and no block at other times"})
		default:
			w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: report.NoBlock})
		}
	}
	return cmp.Or(w.Report.CheckKnown(), q.policies())
}

func (q *config) source(name string, at statement, body []statement) {
	src := &source{name: name, Place: at.Place}
	src.within, src.outside = q.parseTimed(at)
	more := false
	addNetwork := func(p report.Place, word string) {
		nets, ok := input.Networks(word)
		if !ok {
			q.w.Report.Add(&report.Note{Kind: report.Line, Place: p, What: fmt.Sprintf("%q is neither an address nor a network nor a range", word), Why: "left out"})
		}
		if len(src.networks) > build.MaxNetworks {
			if !more {
				q.w.Report.Add(&report.Note{Kind: report.Lost, Place: p, What: "networks", Ours: "policies: networks", Why: fmt.Sprintf("the first %d are there: write the others as larger networks", build.MaxNetworks)})
			}
			more, ok = true, false
		} else {
			src.networks = append(src.networks, nets...)
		}
		src.unknown = src.unknown || !ok
	}
	for _, s := range body {
		if len(s.words) == 0 {
			continue
		}
		values := strings.FieldsFunc(strings.Join(s.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })
		ours := "networks"
		switch s.words[0] {
		case "ip":
			for _, v := range values {
				addNetwork(s.Place, v)
			}
		case "user":
			src.users, ours = append(src.users, values...), "users"
		case "iplist", "userlist":
			if len(values) == 0 {
				continue
			}
			err := input.Lines(q.path(values[0]), func(n int, l []byte) error {
				if l = input.CutNote(l); len(l) == 0 {
					return nil
				}
				if s.words[0] == "iplist" {
					addNetwork(report.Place{File: q.path(values[0]), Line: n}, string(l))
				} else {
					name, _, _ := strings.Cut(string(l), ":")
					src.users = append(src.users, name)
				}
				return nil
			})
			if err != nil {
				src.unknown = true
				q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: err.Error()})
				continue
			}
			if s.words[0] == "userlist" {
				ours = "users"
			}
		case "within", "outside":
			if len(values) > 0 {
				src.within, src.outside, ours = values[0], s.words[0] == "outside", "schedule"
			}
		default:
			src.unknown = src.unknown || !strings.HasPrefix(s.words[0], "log")
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: whyNoClient(s.words[0])})
			continue
		}
		q.w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: fmt.Sprintf("%s of policy %q", ours, name)})
	}
	q.sources = append(q.sources, src)
}

func (q *config) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(q.db, name)
}

// matching returns a list of URLs without the entries that never match, because squidGuard removes
// what they begin with from the URL: the file, or a copy.
func (q *config) matching(name, path string) (string, error) {
	var lines []report.Place
	left, first := 0, report.Place{}
	err := input.Lines(path, func(n int, s []byte) error {
		at := report.Place{File: path, Line: n, Text: string(bytes.TrimSpace(s))}
		if !hostNumbers.MatchString(at.Text) {
			lines = append(lines, at)
		} else if left++; left == 1 {
			first = at
		}
		return nil
	})
	if err != nil || left == 0 {
		return path, nil // adding the list says what is wrong with it
	}
	q.w.Report.Add(&report.Note{Kind: report.Line, Place: first, What: first.Text, Why: fmt.Sprintf("squidGuard removes www, web and ftp from the beginning of a URL, so that such entries (%d) never match: they are left out", left)})
	return q.w.OwnLines(name+"-urls", lines)
}

func (q *config) dest(name string, at statement, body []statement) error {
	d := &dest{name: name}
	if within, outside := q.parseTimed(at); within != "" {
		d.when = q.within(within, outside, at.Place)
	}
	q.dests[name] = d
	var domains *build.Index
	for _, s := range body {
		if len(s.words) < 2 {
			continue
		}
		cfg := list.Config{Format: list.Domains, Category: name, Match: list.Boundary}
		switch s.words[0] {
		case "domainlist":
		case "urllist":
			cfg.Match = list.Prefix
		case "expressionlist":
			cfg.Format = list.Expressions
		case "redirect":
			d.redirect = strings.Join(s.words[1:], " ")
			q.redirected(s)
			continue
		case "within", "outside":
			if d.when = q.within(s.words[1], s.words[0] == "outside", s.Place); d.when != nil {
				q.w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "schedule of the rules"})
			}
			continue
		default:
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: "the record is kept in full; shuultuur events searches it"})
			continue
		}
		cfg.Path = setting.Source(q.path(s.words[len(s.words)-1]))
		if !input.IsFile(string(cfg.Path)) {
			d.lost = true
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: fmt.Sprintf("the list file %q is not there: copy it beside the settings and import again", cfg.Path)})
			continue
		}
		if cfg.Match == list.Prefix {
			path, err := q.matching(name, string(cfg.Path))
			if err != nil {
				return err
			}
			cfg.Path = setting.Source(path)
		}
		listName, err := q.w.AddList(name+"-"+strings.TrimSuffix(s.words[0], "list"), cfg, s.Place)
		if err != nil {
			return err
		}
		d.lost = q.w.Partial() || d.lost
		if listName == "" {
			continue
		}
		d.categories = []string{"category/" + name}
		if cfg.Format == list.Domains {
			x := q.lint(string(cfg.Path), cfg.Match == list.Prefix)
			if cfg.Match == list.Boundary {
				domains = x
				build.ReportShadows(q.w, x, x, "a wider entry of the same list covers it")
			} else {
				build.ReportShadows(q.w, x, domains, "the whole site is in the domain list")
			}
		}
	}
	return nil
}

// lint looks for lines that squidGuard never matches, and for duplicates.
func (q *config) lint(path string, urls bool) *build.Index {
	x := build.NewIndex(path)
	x.HostsOnly = true
	f, err := input.Whole(path)
	if err != nil {
		return x // compiled already, so it is only too large to compare
	}
	_ = input.EachLine(path, bytes.NewReader(f), func(n int, s []byte) error {
		at := report.Place{File: path, Line: n}
		if s[0] == '#' {
			return nil
		}
		dead := ""
		switch {
		case bytes.Contains(s, []byte("://")):
			dead = "has a scheme"
		case s[0] == '.':
			dead = "begins with a dot"
		case !urls && bytes.IndexByte(s, '/') >= 0:
			dead = "has a path in a domain list"
		}
		if dead != "" {
			q.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q %s, so squidGuard never finds it", s, dead), Why: "ours does", Mend: build.EntryKey(s)})
		}
		if before, twice := x.Add(build.EntryKey(s), at); twice {
			q.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is in line %d already", s, before.Line)})
		}
		return nil
	})
	return x
}

func (q *config) rewrite(name string, at statement, body []statement) (safe bool) {
	if within, _ := q.parseTimed(at); within != "" {
		q.w.Report.Add(&report.Note{Kind: report.Changed, Place: at.Place, What: at.Text, Ours: "safesearch", Why: "it applies at all times, as a policy has it on or off"})
	}
	for _, s := range body {
		low := strings.ToLower(s.Text)
		if strings.Contains(low, "safe=") || strings.Contains(low, "adlt=") || strings.Contains(low, "vm=r") || strings.Contains(low, "safesearch") {
			safe = true
			q.w.Report.Add(&report.Note{Kind: report.Changed, Place: s.Place, What: s.Text, Ours: "safesearch: true", Why: "the preset covers current search engines"})
			continue
		}
		why := "requests are not rewritten by expressions; a rule with action: redirect leads from a URL to another"
		if len(s.words) > 0 && s.words[0] == "log" {
			why = "the record is kept in full; shuultuur events searches it"
		}
		if len(s.words) > 0 {
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: why})
		}
	}
	return safe
}

// acl reads the acl block: for each source its branches.
func (q *config) acl(body []statement, safe map[string]bool) {
	for i := 0; i < len(body); i++ {
		s := body[i]
		if s.end != '{' || len(s.words) == 0 {
			continue
		}
		n := blockEnd(body[i+1:])
		if n < 0 {
			return
		}
		inner := body[i+1 : i+1+n]
		i += 1 + n
		a := &acl{Place: s.Place, then: q.branch(inner, s.Place, safe)}
		if len(s.words) > 2 {
			a.within, a.outside = s.words[2], s.words[1] == "outside"
		}
		if i+1 < len(body) && len(body[i+1].words) > 0 && body[i+1].words[0] == "else" && body[i+1].end == '{' {
			if n := blockEnd(body[i+2:]); n >= 0 {
				a.hasElse, a.elseThen = true, q.branch(body[i+2:i+2+n], body[i+1].Place, safe)
				i += 2 + n
			}
		}
		q.acls[s.words[0]] = a
	}
}

func (q *config) branch(body []statement, at report.Place, safe map[string]bool) (b branch) {
	b.Place = at
	for _, s := range body {
		if len(s.words) < 2 {
			continue
		}
		switch s.words[0] {
		case "pass":
			b.Place = s.Place
			b.pass = append(b.pass, strings.FieldsFunc(strings.Join(s.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })...)
		case "redirect":
			b.redirect = strings.Join(s.words[1:], " ")
			q.redirected(s)
		case "rewrite", "rew":
			on, known := safe[s.words[1]]
			b.safe = b.safe || on
			switch {
			case on:
				q.w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "safesearch"})
			case !known:
				q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: "there is no rewrite of that name before it"})
			default:
				q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: "nothing of that rewrite is carried over"})
			}
		default:
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: "the record is kept in full; shuultuur events searches it"})
		}
	}
	return b
}

// whyNoLine returns the reason why a line outside all blocks is not carried
// over.
func whyNoLine(word string) string {
	if strings.HasPrefix(word, "log") || strings.HasSuffix(word, "log") {
		return "the record is kept in full; shuultuur events searches it"
	}
	if strings.HasPrefix(word, "ldap") || strings.HasPrefix(word, "mysql") {
		return whyNoClient("ldap")
	}
	return report.NotKnown
}

// whyNoClient returns the reason why a condition on clients is not carried over,
// and the remedy.
func whyNoClient(word string) string {
	switch {
	case strings.HasPrefix(word, "ldap"):
		return "groups of the policy and identity.basic.ldap find people in a directory: write its address there, and the group here"
	case word == "execuserlist" || word == "userquery":
		return "no program or database is asked for names: write them into users of the policy, or ask a directory with identity.basic.ldap"
	case word == "log" || word == "logfile":
		return "the record is kept in full; shuultuur events searches it"
	case word == "domain":
		return "clients are identified by address and user: write the networks of that domain"
	}
	return "clients are identified by address and user"
}
