//go:build unix

package list

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/list/adblock"
	"shuultuur/test/race"
	"shuultuur/test/reading"
)

// growingLists has, for readers of lists, what could be read again and again for each piece: n
// pieces of a long line, of nested brackets, of one entry, or of entries that share a key. {i}
// becomes the number of the piece. The last are the formats whose readers take them apart.
var growingLists = map[string][4]string{
	"labels":                   {"", "a.", "com\n", "domains hosts adblock networks e2guardian auto"},
	"a long line":              {"", "a", "\n", "domains hosts adblock networks e2guardian auto"},
	"entries":                  {"", "a{i}.example.com\n", "", "domains adblock wildcard e2guardian json"},
	"one entry":                {"", "example.com\n", "", "domains hosts adblock networks e2guardian auto"},
	"one host, many paths":     {"", "example.com/{i}\n", "", "domains adblock wildcard e2guardian json"},
	"labels below each other":  {"", "a{i}.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.com\n", "", "domains adblock wildcard e2guardian json"},
	"segments of a path":       {"example.com/", "a/", "\n", "domains adblock wildcard e2guardian json"},
	"parents in a path":        {"example.com/", "../a/", "\n", "domains adblock wildcard e2guardian json"},
	"escapes in a path":        {"example.com/", "%25", "\n", "domains adblock wildcard e2guardian json"},
	"empty lines":              {"", "\n", "", "domains hosts adblock networks e2guardian auto"},
	"carriage returns":         {"", "\r", "", "domains hosts adblock networks e2guardian auto"},
	"comments":                 {"", "# [Adblock Plus]\n", "", "domains hosts adblock networks e2guardian auto"},
	"marks in a line":          {"", "#", "", "domains hosts adblock networks e2guardian auto"},
	"names on a line":          {"0.0.0.0 ", "a{i}.com ", "\n", "hosts auto"},
	"addresses":                {"", "0.0.0.0 a{i}.com\n", "", "hosts auto"},
	"networks":                 {"", "10.{i}.0.0/16\n", "", "networks e2guardian"},
	"overlapping ranges":       {"", "10.0.0.1-10.200.0.{i}\n", "", "networks e2guardian"},
	"wrong lines":              {"", "|| ^{i}$\\(\n", "", "domains hosts adblock networks e2guardian auto"},
	"rules":                    {"", "||a{i}.com^\n", "", "adblock"},
	"rules of one word":        {"", "/banner*{i}x$third-party\n", "", "adblock"},
	"wildcards in a rule":      {"||a", "*a", "^\n", "adblock"},
	"separators in a rule":     {"a", "^", "\n", "adblock"},
	"rules with wildcards":     {"", "a*b*c*d*e*{i}\n", "", "adblock"},
	"options of a rule":        {"||a.com^$script", ",image", "\n", "adblock"},
	"domains of a rule":        {"/ad$domain=a.com", "|b{i}.com", "\n", "adblock"},
	"one domain of a rule":     {"/ad$domain=a.com", "|~b.com", "\n", "adblock"},
	"denied and allowed":       {"/ad$denyallow=a.com", "|b{i}.com", ",domain=c.com\n", "adblock"},
	"exceptions":               {"", "@@||a{i}.com^$document\n", "", "adblock"},
	"rules that end others":    {"", "||a.com^$badfilter\n||a.com^\n", "", "adblock"},
	"sites of a cosmetic rule": {"a.com", ",b{i}.com", "##.x\n", "adblock"},
	"cosmetic rules":           {"", "a.com##.x{i}\n", "", "adblock"},
	"cosmetic exceptions":      {"", "a.com#@#.x{i}\n##.x{i}\n", "", "adblock"},
	"selectors":                {"##a", ":not(a", "\n", "adblock"},
	"children in a selector":   {"##a", ">a", "\n", "adblock"},
	"scriptlets":               {"a.com##+js(a", ", b", ")\n", "adblock"},
	"conditions":               {"", "!#if x\n", "", "adblock"},
	"brackets of conditions":   {"!#if ", "(", "\na.com\n!#endif\n", "adblock"},
	"negations in a condition": {"!#if ", "!", "x\na.com\n!#endif\n", "adblock"},
	"operators of conditions":  {"!#if x", "&&x", "\na.com\n!#endif\n", "adblock"},
	"expressions":              {"", "/ad[0-9]{i}x/\n", "", "adblock pihole expressions e2guardian-regexp"},
	"alternations":             {"/(a", "|b{i}", ")/\n", "adblock pihole expressions e2guardian-regexp"},
	"groups":                   {"/", "(a", "/\n", "adblock pihole expressions e2guardian-regexp"},
	"empty groups":             {"/", "()", "/\n", "adblock pihole expressions e2guardian-regexp"},
	"classes":                  {"/a", "[a-z]", "/\n", "adblock pihole expressions e2guardian-regexp"},
	"a long class":             {"/[a", "b-d", "]/\n", "adblock pihole expressions e2guardian-regexp"},
	"repetitions":              {"/a", "+b*", "/\n", "adblock pihole expressions e2guardian-regexp"},
	"counted repetitions":      {"/a", "{2}", "/\n", "adblock pihole expressions e2guardian-regexp"},
	"parts that may be absent": {"", "/(a?b?c?d?){9}{i}x/\n", "", "adblock pihole expressions e2guardian-regexp"},
	"bare expressions":         {"", "(^|\\.)ad[0-9]*{i}x\\.com$\n", "", "pihole expressions e2guardian-regexp"},
	"bare alternations":        {"(a", "|b{i}", ")\n", "pihole expressions e2guardian-regexp"},
	"bare groups":              {"", "(a", "\n", "pihole expressions e2guardian-regexp"},
	"brackets of POSIX":        {"", "[[:alpha:]", "\n", "pihole expressions e2guardian-regexp"},
	"options of Pi-hole":       {"a", ";querytype=A", "\n", "pihole"},
	"servers of dnsmasq":       {"address=/", "a{i}.com/", "0.0.0.0\n", "dnsmasq auto"},
	"lines of dnsmasq":         {"", "server=/a{i}.com/\n", "", "dnsmasq auto"},
	"zones of unbound":         {"", "local-zone: \"a{i}.com\" always_nxdomain\n", "", "unbound auto"},
	"quotes":                   {"", "\"", "\n", "unbound auto"},
	"records of a zone":        {"", "a{i}.com CNAME .\n", "", "rpz auto"},
	"brackets of a zone":       {"a CNAME (", " (", "\n", "rpz auto"},
	"includes":                 {"", ".Include</none/{i}>\n", "", "e2guardian"},
	"directives":               {"", "#listcategory: \"a{i}\"\n", "", "e2guardian"},
	"categories":               {"domain,category\n", "a.com,c{i}\n", "", "csv"},
	"columns":                  {"domain", ",a", "\na.com\n", "csv"},
	"quoted columns":           {"domain\n\"", "\"\"", "\"\n", "csv"},
	"a field without an end":   {"domain\n\"", "a,\n", "", "csv"},
	"lists in JSON":            {"", "[", "", "json"},
	"objects in JSON":          {"", `{"entry":`, "", "json"},
	"entries in JSON":          {`["a.com"`, `,{"entry":"a{i}.com"}`, "]", "json"},
	"one key in JSON":          {`[{"entry":"a.com"`, `,"entry":"b.com"`, "}]", "json"},
	"unknown keys in JSON":     {`[{"entry":"a.com"`, `,"k{i}":[]`, "}]", "json"},
	"a string in JSON":         {`["`, `\u0061`, `"]`, "json"},
	"letters of a name":        {"", "ü", ".com\n", "domains hosts adblock networks e2guardian auto"},
	"names in other letters":   {"", "ü{i}.com\n", "", "domains hosts adblock networks e2guardian auto"},
	"coded names":              {"", "xn--a-", ".com\n", "domains hosts adblock networks e2guardian auto"},
}

// growList returns a list with n pieces.
func growList(of [4]string, n int) string {
	var b strings.Builder
	b.WriteString(of[0])
	for i := range n {
		b.WriteString(strings.ReplaceAll(of[1], "{i}", fmt.Sprint(i)))
	}
	return b.String() + of[2]
}

// readList makes a list of a text, opens it, looks a URL up, and returns the processor time and
// the size of what was written.
func readList(t *testing.T, format FormatName, text string) (took time.Duration, size int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	from := reading.ProcessorTime()
	defer func() { took = reading.ProcessorTime() - from }()
	report, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(file), Fetched: true}, file+".list")
	if err != nil {
		return 0, 0 // a list that cannot be read
	}
	if len(report.Problems) > 1000 {
		t.Errorf("%s: %d problems are kept of %d bytes", format, len(report.Problems), len(text))
	}
	if info, err := os.Stat(file + ".list"); err == nil {
		size = info.Size()
	}
	f, err := Open(file + ".list")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Prepare()
	const url = "http://a.b.example.com/banner/ad1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	if _, err := f.Ask(url); err != nil {
		t.Error(err)
	}
	var request adblock.Request
	request.Set(url, adblock.Document, "")
	if f.Rules().Requests() {
		_, err = f.Rules().Judge(&request, nil)
	}
	if err != nil {
		t.Error(err)
	}
	return took, size
}

// mostForList bounds the processor time and the size of what is made of a list of n bytes. Each
// expression may cost up to a budget.
func mostForList(n int, expressions bool) (time.Duration, int64) {
	each := 10 * time.Microsecond
	if expressions {
		each = 100 * time.Microsecond
	}
	return 300*time.Millisecond + time.Duration(n)*each, int64(40*n + 1<<20)
}

// checkList reads a list of n pieces and checks what that costs.
func checkList(t *testing.T, name string, format FormatName, of [4]string, n int, expressions bool) {
	t.Helper()
	text := growList(of, n)
	took, size := readList(t, format, text)
	if mostTime, mostSize := mostForList(len(text), expressions); took > mostTime || size > mostSize {
		t.Errorf("%s, %s: %d bytes take %s, at most %s, and give %d bytes, at most %d", format, name, len(text), took, mostTime, size, mostSize)
	}
}

// Making a list takes time, and gives a file, in proportion to its length.
func TestReadingListsIsLinear(t *testing.T) {
	race.Without(t)
	for name, of := range growingLists {
		expressions := strings.Contains(of[3], "regexp")
		size, n := 32<<10, 4
		if expressions {
			size = 8 << 10
		}
		for len(growList(of, n)) < size {
			n *= 2
		}
		for format := range strings.FieldsSeq(of[3]) {
			checkList(t, name, FormatName(format), of, n, expressions)
		}
	}
}

// Whatever the lines of a list, the work and the file are bounded by its length.
func FuzzListsEnd(f *testing.F) {
	for _, of := range growingLists {
		for format := range strings.FieldsSeq(of[3]) {
			f.Add(format, of[0], of[1], of[2], uint16(1))
		}
	}
	f.Fuzz(func(t *testing.T, format, begin, piece, end string, n uint16) {
		known := false
		for _, x := range Formats() {
			known = known || string(x.Name) == format && !x.tree
		}
		if !known || len(begin)+len(end) > 4<<10 || strings.Contains(strings.ToLower(begin+piece+end), "include") {
			return // includes may name files of this machine
		}
		checkList(t, "fuzzed", FormatName(format), [4]string{begin, piece, end}, min(int(n), 64<<10/max(1, len(piece)+4)), true)
	})
}
