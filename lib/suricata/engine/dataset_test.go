package engine

import (
	"strings"
	"testing"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/rule"
)

// A dataset has the type that any rule or the settings give it.
func TestTypesOfDatasetsAreGivenAnywhere(t *testing.T) {
	const http = "alert http any any -> any any (flow:to_server; "
	for name, x := range map[string]struct {
		rules string
		sets  map[string]Set
		bad   bool // a rule is refused
		want  int  // alerts of rule 1
	}{
		"by the rule itself":    {http + `http.method; dataset:set,a,type string; sid:1;)`, nil, false, 1},
		"by a rule before":      {http + `http.uri; dataset:set,a,type string; sid:2;)` + "\n" + http + `http.method; dataset:set,a; sid:1;)`, nil, false, 1},
		"by a rule behind":      {http + `http.method; dataset:set,a; sid:1;)` + "\n" + http + `http.uri; dataset:set,a,type string; sid:2;)`, nil, false, 1},
		"by the settings":       {http + `http.method; dataset:set,a; sid:1;)`, map[string]Set{"a": {Type: "string"}}, false, 1},
		"with its values":       {http + `http.method; dataset:isset,a; sid:1;)`, map[string]Set{"a": {Type: "string", Data: []byte("UE9TVA==\n")}}, false, 1},
		"with other values":     {http + `http.method; dataset:isset,a; sid:1;)`, map[string]Set{"a": {Type: "string", Data: []byte("R0VU\n")}}, false, 0},
		"without being there":   {http + `http.method; dataset:isnotset,a; sid:1;)`, map[string]Set{"a": {Type: "string", Data: []byte("R0VU\n")}}, false, 1},
		"of a digest":           {http + `http.method; to_sha256; dataset:set,a; sid:1;)`, map[string]Set{"a": {Type: "sha256"}}, false, 1},
		"of nobody":             {http + `http.method; dataset:isset,a; sid:1;)`, nil, true, 0},
		"of another set":        {http + `http.method; dataset:isset,a; sid:1;)`, map[string]Set{"b": {Type: "string"}}, true, 0},
		"by a rule that is off": {http + `http.method; dataset:isset,a; sid:1;)` + "\n" + http + `http.uri; dataset:set,a,type string; requires:version > 99; sid:2;)`, nil, true, 0},
	} {
		rs, mistakes, err := rule.NewParser().Read("test.rules", strings.NewReader(x.rules))
		if err != nil || len(mistakes) > 0 {
			t.Fatal(name, err, mistakes)
		}
		vars, ports := address.Groups()
		e, mistakes, err := New(Config{Rules: rs, Vars: vars, Ports: ports, Sets: x.sets})
		if err != nil || (len(mistakes) > 0) != x.bad {
			t.Errorf("%s: mistakes %v", name, mistakes)
			continue
		}
		got := 0
		for _, a := range inspected(e) {
			if a.SID == 1 {
				got++
			}
		}
		if got != x.want {
			t.Errorf("a type %s: %d alerts, want %d", name, got, x.want)
		}
	}
}
