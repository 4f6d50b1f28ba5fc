package rule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRulesAreChosenAsSuricataUpdateDoes applies lines of enable.conf, disable.conf,
// modify.conf and drop.conf to rules.
func TestRulesAreChosenAsSuricataUpdateDoes(t *testing.T) {
	const (
		a = `alert http any any -> any any (msg:"ET one, two"; threshold:type limit, seconds 60; classtype:trojan-activity; metadata:deployment Perimeter, tag Two Words; sid:1;)`
		b = `alert http any any -> any any (msg:"b"; flowbits:set,x; flowbits:noalert; gid:3; sid:2;)`
	)
	for name, x := range map[string]struct {
		enable, disable, modify, drop string
		file, rule, want              string
	}{
		"nothing":                     {rule: a, want: a},
		"a number":                    {disable: "1", rule: a, want: "#" + a},
		"another number":              {disable: "2", rule: a, want: a},
		"numbers, with a comment":     {disable: "7, 1:1 # not now", rule: a, want: "#" + a},
		"a group number":              {disable: "3:2", rule: b, want: "#" + b},
		"the wrong group number":      {disable: "2", rule: b, want: b},
		"all":                         {disable: "*", rule: a, want: "#" + a},
		"all but one":                 {disable: "*", enable: "1", rule: a, want: a},
		"an expression with a comma":  {disable: "re:one, t.o", rule: a, want: "#" + a},
		"an expression with a number": {disable: "re:e{1,3}t ONE", rule: a, want: "#" + a},
		"what was off":                {enable: "re:msg:\"et ", rule: "# " + a, want: a},
		"a file":                      {disable: "group:emerging-x.rules", rule: a, want: "#" + a},
		"a file without extension":    {disable: "group:emerging-x", rule: a, want: "#" + a},
		"files":                       {disable: "group:*-x", rule: a, want: "#" + a},
		"a file by its end":           {disable: "emerging-x.rules", rule: a, want: "#" + a},
		"a path":                      {disable: "filename:rules/*.rules", rule: a, want: "#" + a},
		"a name is no end of another": {disable: "group:x.rules", rule: a, want: a},
		"one of several letters":      {disable: "group:emerging-[!a-w].rules", rule: a, want: "#" + a},
		"metadata":                    {disable: "metadata: deployment Perimeter", rule: a, want: "#" + a},
		"metadata of words":           {disable: "metadata: tag Two Words", rule: a, want: "#" + a},
		"metadata of another value":   {disable: "metadata: deployment Internal", rule: a, want: a},
		"a change":                    {modify: `1 "seconds \d+" "seconds 3600"`, rule: a, want: strings.Replace(a, "seconds 60", "seconds 3600", 1)},
		"a change, escaped":           {modify: `1 "seconds \\d+" "seconds 3600"`, rule: a, want: strings.Replace(a, "seconds 60", "seconds 3600", 1)},
		"a change without quotes":     {modify: `re:. ^alert drop`, rule: a, want: strings.Replace(a, "alert", "drop", 1)},
		"a change with groups":        {modify: `re:classtype:trojan-activity "(alert)(.*)" "drop\\2"`, rule: a, want: strings.Replace(a, "alert", "drop", 1)},
		"groups by name":              {modify: `* "(?P<who>alert)( http)" "\g<who>\g<2>1"`, rule: a, want: strings.Replace(a, "alert http", "alert http1", 1)},
		"as Oinkmaster does":          {modify: `modifysid * "^alert(.*)noalert(.*)" | "pass${1}noalert${2}"`, rule: b, want: strings.Replace(b, "alert", "pass", 1)},
		"a quote in it":               {modify: `1 "msg:\"ET" "msg:\"our $ET"`, rule: a, want: strings.Replace(a, `"ET`, `"our $ET`, 1)},
		"single quotes":               {modify: `1 'msg:"ET' 'msg:"it'`, rule: a, want: strings.Replace(a, `"ET`, `"it`, 1)},
		"an expression in quotes":     {modify: `re:"one, two" http dns # all of them`, rule: a, want: strings.Replace(a, "http", "dns", 1)},
		"more metadata":               {modify: `metadata-add re:"ET one" "action" "archive"`, rule: a, want: strings.Replace(a, "sid:1;)", "sid:1; metadata:action archive;)", 1)},
		"drop":                        {drop: "1", rule: a, want: strings.Replace(a, "alert", "drop", 1)},
		"drop what rejects":           {drop: "1", rule: strings.Replace(a, "alert", "reject", 1), want: strings.Replace(a, "alert", "drop", 1)},
		"no drop of what only sets":   {drop: "3:2", rule: b, want: b},
		"a rule of two lines":         {disable: "1", rule: strings.Replace(a, "; ", "; \\\n  ", 1), want: "#" + a + "\n\n"},
		"what comes after it":         {disable: "1", rule: "alert \\\n x (sid:2;)\n" + a, want: "alert x (sid:2;)\n\n#" + a},
		"what is no rule":             {disable: "*", rule: "# a comment", want: "# a comment"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := func(name, text string) string {
				if text == "" {
					return ""
				}
				name = filepath.Join(dir, name)
				if err := os.WriteFile(name, []byte("# what we want\n\n"+text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return name
			}
			c, err := ReadChoice(file("enable", x.enable), file("disable", x.disable), file("modify", x.modify), file("drop", x.drop))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(c.Apply("et.tar.gz:rules/emerging-x.rules", []byte(x.rule))); strings.TrimSuffix(got, "\n") != strings.TrimSuffix(x.want, "\n") {
				t.Errorf("Apply returned %q\nwant %q", got, x.want)
			}
		})
	}
}

// TestLinesThatChooseNothingAreMistakes: the mistake names the file and the line.
func TestLinesThatChooseNothingAreMistakes(t *testing.T) {
	for _, x := range []struct{ kind, line string }{
		{"disable", "one"}, {"disable", "1:x"}, {"disable", "re:("}, {"disable", "metadata: one"}, {"drop", "1,"},
		{"modify", `1 "a"`}, {"modify", `1 "a" "b" "c"`}, {"modify", `1 "(" "b"`}, {"modify", `1 "a "b"`}, {"modify", `x "a" "b"`}, {"modify", `1 'a b`},
	} {
		name := filepath.Join(t.TempDir(), x.kind)
		if err := os.WriteFile(name, []byte("\n"+x.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		names := map[string]string{x.kind: name}
		_, err := ReadChoice(names["enable"], names["disable"], names["modify"], names["drop"])
		if err == nil || !strings.Contains(err.Error(), name+":2: ") {
			t.Errorf("the %s line %q: %v, want a mistake in line 2", x.kind, x.line, err)
		}
	}
}
