package rule

import (
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/test/data"
)

// TestPublicRulesLoad reads the public rule sets: none may be refused.
func TestPublicRulesLoad(t *testing.T) {
	for name, want := range map[string]int{"et-open.rules.gz": 29744, "et-open-http.rules.gz": 16024} {
		f, err := os.Open(data.Path(t, "rules", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		rules, mistakes, err := NewParser().Read(name, z)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: read %d rules in %v", name, len(rules), time.Since(start))
		for i, m := range mistakes {
			if i < 20 {
				t.Error(m)
			}
		}
		if len(rules) != want {
			t.Errorf("%s: read %d rules, want %d", name, len(rules), want)
		}
	}
}

// TestConflictsWithinARuleAreMistakes has rules that Suricata refuses although each keyword is
// valid, and similar rules that are valid.
func TestConflictsWithinARuleAreMistakes(t *testing.T) {
	for _, x := range []struct{ proto, wrong, says, right string }{
		{"http", `content:"ab"; depth:5; within:5`, "distance or within", `content:"a"; content:"ab"; distance:1; within:5`},
		{"http", `http.uri; content:!"ab"; fast_pattern:only`, "fast_pattern:only", `http.uri; content:!"ab"; fast_pattern`},
		{"http", `http.uri; content:"a"; content:!"ab"; within:5; fast_pattern`, "negated", `http.uri; content:"a"; content:"ab"; within:5; fast_pattern`},
		{"http", `http.uri; content:"abcdef"; bsize:3`, "bsize", `http.uri; content:"abcdef"; bsize:6`},
		{"http", `http.uri; content:"abcdef"; bsize:1<>6`, "bsize", `http.uri; content:"abcdef"; bsize:1<>7`},
		{"http", `http.host; content:"ab"; nocase`, "nocase", `http.host.raw; content:"ab"; nocase`},
		{"http", `threshold:type limit,track by_src,count 1,seconds 1; detection_filter:track by_src,count 1,seconds 1`, "exclude", `threshold:type limit,track by_src,count 1,seconds 1`},
		{"http", `flow:established,not_established`, "exclude", `flow:established,to_server`},
		{"http", `flow:only_stream,no_stream`, "exclude", `flow:only_stream`},
		{"http", `flow:to_client; http.uri; content:"a"`, "one direction", `flow:to_server; http.uri; content:"a"`},
		{"http", `http.uri; content:"a"; http.stat_code; content:"200"`, "one direction", `http.uri; content:"a"; http.header; content:"b"`},
		{"http", `http.referer; content:"a"; absent`, "absent", `http.referer; content:"a"; absent:or_else`},
		{"http", `http.referer; absent:or_else`, "or_else", `http.referer; absent`},
		{"http", `http.uri; to_md5`, "has no matches", `http.uri; to_md5; content:"a"`},
		{"http", `http.uri; http.header; content:"a"`, "has no matches", `http.header; content:"a"`},
		{"tls", `http.uri; content:"a"`, "not part of tls", `tls.sni; content:"a"`},
		{"http1", `http2.header_name; content:"a"`, "not part of http1", `http.uri; content:"a"`},
		{"http", `priority:0`, "1 to 255", `priority:255`},
		{"http", `content:"a"; content:"b"; distance:1; distance:2`, "one already", `content:"a"; content:"b"; distance:1; within:2`},
		{"http", `content:"ab"; depth:5; depth:5`, "one already", `content:"ab"; offset:1; depth:5`},
		{"http", `http.header; pcre:"/a/U"`, "http.uri", `http.uri; content:"b"; pcre:"/a/U"`},
		{"http", `content:"a"; isdataat:!-1,relative`, "negative", `content:"a"; isdataat:!1,relative`},
		{"http", `detection_filter:track by_src,count 5`, "seconds", `detection_filter:track by_src,count 5,seconds 1`},
		{"http", `threshold:type limit,track by_src,seconds 5`, "count", `threshold: type limit, track by_src, seconds 5, count 1`},
		{"http", `threshold:type backoff,track by_flow,count 1,seconds 5`, "multiplier", `threshold:type backoff,track by_flow,count 1,multiplier 5`},
		{"http", `msg:"a; content:"b"`, "quotes", `msg:"a\; b"; content:"b"`},
	} {
		parse := func(options string) (*Rule, *Error) {
			return NewParser().Parse("alert " + x.proto + " any any -> any any (" + options + "; sid:1;)")
		}
		if _, err := parse(x.wrong); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("parsing %s: %v, want a mistake about %q", x.wrong, err, x.says)
		}
		if _, err := parse(x.right); err != nil {
			t.Errorf("parsing %s: %v", x.right, err)
		}
	}
}

// TestOneLineOfAFileOfRulesSpoilsNoOther: a line of a megabyte, a mark of the byte order, and a last
// line that has no end or says that it goes on.
func TestOneLineOfAFileOfRulesSpoilsNoOther(t *testing.T) {
	rule := func(sid int) string {
		return fmt.Sprintf(`alert http any any -> any any (msg:"x"; content:"a"; sid:%d;)`, sid)
	}
	long := `alert http any any -> any any (msg:"` + strings.Repeat("x", 1<<20) + `"; sid:9;)`
	for name, tt := range map[string]struct {
		text     string
		sids     string
		mistakes string // lines
	}{
		"a mark of the byte order":    {"\ufeff" + rule(1) + "\n" + rule(2) + "\n", "1 2", ""},
		"such a mark before a remark": {"\ufeff# remark\n" + rule(1) + "\n", "1", ""},
		"a line of a megabyte":        {rule(1) + "\n" + long + "\n" + rule(2) + "\n", "1 2", "2"},
		"a remark of a megabyte":      {rule(1) + "\n# " + long + "\n" + rule(2) + "\n", "1 2", ""},
		"it is the last":              {rule(1) + "\n" + long, "1", "2"},
		"it goes on from a line":      {rule(1) + "\nalert \\\n" + long + "\n" + rule(2) + "\n", "1 2", "3"},
		"a line of 65 KiB":            {strings.Replace(rule(1), "x", strings.Repeat("x", 65<<10), 1) + "\n" + rule(2) + "\n", "2", "1"},
		"no end":                      {rule(1) + "\n" + rule(2), "1 2", ""},
		"the last goes on":            {rule(1) + "\n" + rule(2) + "\\", "1", "2"},
		"the last goes on, and ends":  {rule(1) + "\n" + rule(2) + "\\\n", "1 2", ""},
		"empty":                       {"", "", ""},
	} {
		rules, mistakes, err := NewParser().Read("x.rules", strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var sids, lines []string
		for _, r := range rules {
			sids = append(sids, fmt.Sprint(r.SID))
		}
		for _, m := range mistakes {
			lines = append(lines, fmt.Sprint(m.Line))
		}
		if strings.Join(sids, " ") != tt.sids || strings.Join(lines, " ") != tt.mistakes {
			t.Errorf("%s: rules %q, mistakes in %q; want %q and %q", name, sids, lines, tt.sids, tt.mistakes)
		}
	}
}

// TestWhatFollowsAMatchIsParsed: what nothing here does after a match is refused where it is written wrongly,
// as by Suricata.
func TestWhatFollowsAMatchIsParsed(t *testing.T) {
	for option, right := range map[string]bool{
		"tag:session;": true, "tag:host,100,packets,src;": true, "tag: session, 5, seconds;": true, "tag:session,300,bytes;": true,
		"tag;": false, "tag:;": false, "tag:flow;": false, "tag:!session;": false, "tag:session,5;": false, "tag:session,packets,5;": false,
		"tag:session,-5,packets;": false, "tag:host,5,files;": false, "tag:host,5,packets,both;": false, "tag:host,5,packets,src,dst;": false,
		"filestore;": true, "filestore:request;": true, "filestore:both,flow;": true, "filestore: to_client, tx;": true, "filestore:response,file;": true,
		"filestore:;": false, "filestore:flow,both;": false, "filestore:!request;": false, "filestore:request,;": false, "filestore:request,all;": false,
		"filestore:request,tx,file;": false, "filestore:,tx;": false,
	} {
		rules, mistakes, err := NewParser().Read("a.rules", strings.NewReader(`alert http any any -> any any (content:"a"; `+option+` sid:1;)`))
		if err != nil {
			t.Fatal(err)
		}
		if right != (len(rules) == 1 && len(mistakes) == 0) {
			t.Errorf("%s: %d rules, mistakes %v; want it right: %v", option, len(rules), mistakes, right)
		}
	}
}
