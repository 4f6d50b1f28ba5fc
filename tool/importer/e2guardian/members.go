package e2guardian

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// clients makes policies for the clients that may do everything or nothing.
func (c *folder) clients(lists []ref) {
	for _, p := range []struct{ list, policy, action string }{{"bannedclient", "banned clients", "block"}, {"exceptionclient", "exception clients", "allow"}} {
		for _, r := range lists {
			if r.typ != "ip" || r.name != p.list {
				continue
			}
			var nets []string
			_, err := c.walk(r.path, func(at report.Place, s []byte) {
				if s = input.CutNote(s); len(s) == 0 {
					return
				}
				n, ok := input.Networks(string(s))
				if !ok {
					c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is neither an address nor a network nor a range", s), Why: "left out"})
				}
				if len(nets) <= build.MaxNetworks {
					nets = append(nets, n...)
				}
			})
			build.Unread(c.w, r.path, err)
			if len(nets) == 0 {
				c.w.Report.Add(&report.Note{Kind: report.Empty, Place: r.Place, What: r.Text, Why: "nobody is in it"})
				continue
			}
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: fmt.Sprintf("policy %q", p.policy)})
			c.w.Set.Policies = append(c.w.Set.Policies, policy.Policy{Name: p.policy, Networks: build.PolicyNetworks(c.w, r.Place, nets), Rules: []policy.Rule{{Name: p.policy, Action: p.action}}})
		}
	}
	for _, r := range lists {
		if r.typ == "ip" && r.name == "authexception" {
			c.w.Report.Add(&report.Note{Kind: ifAny(c, r.path, report.Lost), Place: r.Place, What: r.Text, Why: "networks say who has to log in: write identity.basic.networks"})
		}
	}
}

// ifAny returns kind, or Empty if the list is empty.
func ifAny(c *folder, path string, kind report.Kind) report.Kind {
	if len(c.items(ref{path: path})) == 0 {
		return report.Empty
	}
	return kind
}

type membership struct{ users, networks []string }

// members reads which users and addresses belong to which filter group.
func (c *folder) members(lists []ref, opts map[string]option) map[int]membership {
	all := map[int]membership{}
	byAddress, byName := false, false
	take := func(path string) {
		_, err := c.walk(path, func(at report.Place, s []byte) {
			if s = input.CutNote(s); len(s) == 0 {
				return
			}
			who, group, ok := strings.Cut(string(s), "=")
			who, group = strings.TrimSpace(who), strings.TrimSpace(group)
			n, err := strconv.Atoi(strings.TrimPrefix(strings.ToLower(group), "filter"))
			if !ok || err != nil || n < 0 || who == "" {
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q puts no user into a group", s), Why: "left out", Mend: "name = filter1"})
				return
			}
			m := all[n]
			switch nets, ok := input.Networks(who); {
			case !ok:
				m.users = append(m.users, who)
			case len(m.networks) <= build.MaxNetworks:
				m.networks = append(m.networks, nets...)
			}
			all[n] = m
		})
		if build.Unread(c.w, path, err); err != nil || c.short[path] {
			c.unknownMembers(report.Place{File: path}, filepath.Base(path), "a part of it is not there")
		}
	}
	for _, o := range opts["authplugin"].every() {
		address, name := c.plugin(o, take)
		byAddress, byName = byAddress || address, byName || name
	}
	for _, r := range lists {
		if r.typ == "ipmap" || r.typ == "map" && strings.Contains(r.name, "user") {
			take(r.path)
			byAddress = byAddress || r.typ == "ipmap"
			byName = byName || r.typ == "map"
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: "networks and users of the policies"})
		}
	}
	if o, ok := opts["filtergroupslist"]; ok {
		switch path, found := c.locate(o.value, c.dir); {
		case !found:
			c.unknownMembers(o.Place, o.Text, "the file is not there")
		case byName:
			take(path)
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "users of the policies"})
		default:
			c.w.Report.Add(&report.Note{Kind: ifAny(c, path, report.Lost), Place: o.Place, What: o.Text, Why: "no authplugin identifies users, so everybody is in the standard group"})
		}
	}
	return all
}

// unknownMembers reports that it is not known who is in which group. Then the standard group, in which
// those of other groups would be, refuses everything.
func (c *folder) unknownMembers(at report.Place, what, why string) {
	n := report.ByHand("networks and users of the policies", why+": copy the file beside the others and import again; until then the standard group refuses everything")
	n.Place, n.What = at, what
	c.w.Report.Add(n.Closing())
	c.strangers = true
}

// plugin reads an authentication plug-in's file, and calls take with the file
// that assigns groups by address.
func (c *folder) plugin(o option, take func(path string)) (byAddress, byName bool) {
	if o.value == "" {
		c.w.Report.Add(&report.Note{Kind: report.Default, Place: o.Place, What: o.Text})
		return false, false
	}
	const mend = "write identity.basic with a password file (shuultuur passwd), or identity.addresses"
	if asksForPasswords(filepath.Base(o.value)) {
		c.w.AsksAt(o.Place)
	}
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		c.unknownMembers(o.Place, o.Text, "the file is not there: "+mend)
		return false, false
	}
	all, err := c.conf(path, 1)
	if err != nil {
		c.unknownMembers(o.Place, o.Text, err.Error()+": "+mend)
		return false, false
	}
	for _, s := range all {
		n := &report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: whyNot("auth")}
		switch to, found := c.locate(s.value, c.dir); {
		case s.name == "plugname" && strings.HasSuffix(s.value, "ip"):
			byAddress = true
			n = report.Same("networks of the policies")
		case s.name == "plugname":
			if byName = true; asksForPasswords(s.value) {
				c.w.AsksAt(s.Place)
			}
			n = report.Differs("identity", "set identity.basic with a password file (shuultuur passwd), or identity.addresses, for the users named in policies to be known")
		case s.name == "ipgroups" && found:
			take(to)
			n = report.Same("networks of the policies")
		case s.name == "ipgroups":
			c.unknownMembers(s.Place, s.Text, "the file is not there")
			continue
		}
		n.Place, n.What = s.Place, s.Text
		c.w.Report.Add(n)
	}
	c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "identity, networks of the policies"})
	return byAddress, byName
}

// asksForPasswords reports whether a plug-in has its users sign in: the proxy behind verifies them.
func asksForPasswords(plugin string) bool {
	return slices.ContainsFunc([]string{"basic", "digest", "ntlm", "negotiate", "kerberos"}, func(s string) bool { return strings.Contains(plugin, s) })
}
