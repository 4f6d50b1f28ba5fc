package zonetest

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/test/data"
)

// A Case is one zone of the Ferret data set with a question about it and the
// answers of several servers.
type Case struct {
	Zone  string // text of RFC 1035
	Query struct{ Name, Type string }
	Said  []struct {
		Servers  string `json:"Server/s"`
		Response []string
	} `json:"Expected Response"`
}

// Ferret reads the data set, by the number of the case. Every absolute name
// of case N ends in tN, so that one server can have all zones.
func Ferret(t testing.TB) map[string]*Case {
	t.Helper()
	f, err := os.Open(data.Path(t, "ferret", "ferret.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]*Case{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		id, ext, _ := strings.Cut(filepath.Base(h.Name), ".")
		if ext != "txt" && ext != "json" {
			continue
		}
		if cases[id] == nil {
			cases[id] = &Case{}
		}
		if ext == "txt" {
			cases[id].Zone = ferretSuffix(string(text), id)
			continue
		}
		of := cases[id].Zone
		var all []Case
		if err := json.Unmarshal(text, &all); err != nil || len(all) != 1 {
			t.Fatalf("%s: %d cases, %v", h.Name, len(all), err)
		}
		all[0].Zone = of
		cases[id] = &all[0]
	}
	for id, c := range cases {
		if c.Zone == "" || len(c.Said) == 0 {
			t.Fatalf("case %s lacks its zone or its answers", id)
		}
	}
	return cases
}

var absolute = regexp.MustCompile(`(?m)(^|\s)([^\s"]*\.)(\s|$)`)

func ferretSuffix(text, id string) string {
	for range 2 { // names side by side share the space between them
		text = absolute.ReplaceAllStringFunc(text, func(s string) string {
			m := absolute.FindStringSubmatch(s)
			if strings.HasSuffix(m[2], ".t"+id+".") || m[2] == "t"+id+"." {
				return s
			}
			return m[1] + strings.TrimPrefix(m[2], ".") + "t" + id + "." + m[3]
		})
	}
	return text
}

// ferretAnswer holds what is compared of an answer: rcode, AA and the set of records.
func ferretAnswer(rcode string, aa bool, answers []string) string {
	answers = slices.Clone(answers)
	for i, a := range answers {
		answers[i] = strings.ToLower(strings.Join(strings.Fields(a), " "))
	}
	slices.Sort(answers)
	return fmt.Sprintf("%s aa=%v %s", rcode, aa, strings.Join(slices.Compact(answers), " | "))
}

// want is the answer of the majority of NSD, Knot and PowerDNS.
func (c *Case) want(t testing.TB, id string) string {
	votes := map[string]int{}
	best := ""
	for _, answer := range c.Said {
		n := 0
		for _, s := range []string{"nsd", "knot", "powerdns"} {
			if strings.Contains(answer.Servers, s) {
				n++
			}
		}
		if n == 0 || len(answer.Response) == 0 {
			continue
		}
		rcode, aa, in := "", false, false
		var answers []string
		for _, line := range answer.Response {
			switch {
			case strings.HasPrefix(line, "rcode "):
				rcode = strings.TrimPrefix(line, "rcode ")
			case strings.HasPrefix(line, "flags"):
				aa = slices.Contains(strings.Fields(line), "AA")
			case strings.HasPrefix(line, ";"):
				in = line == ";ANSWER"
			case in:
				rr, err := miekg.NewRR(ferretSuffix(line, id))
				if err != nil {
					t.Fatalf("case %s: %q: %v", id, line, err)
				}
				answers = append(answers, rr.String())
			}
		}
		a := ferretAnswer(rcode, aa, answers)
		votes[a] += n
		if votes[a] > votes[best] {
			best = a
		}
	}
	return best
}

// Judge asks every question of the data set and returns those with another answer than wanted,
// each with both answers.
func Judge(t testing.TB, cases map[string]*Case, ask func(*miekg.Msg) *miekg.Msg) []string {
	var wrong []string
	for id, c := range cases {
		m := Question(ferretSuffix(c.Query.Name, id), miekg.StringToType[c.Query.Type])
		got := "declined"
		if r := ask(m); r != nil {
			var answers []string
			for _, rr := range r.Answer {
				answers = append(answers, rr.String())
			}
			got = ferretAnswer(miekg.RcodeToString[r.Rcode], r.Authoritative, answers)
		}
		if want := c.want(t, id); got != want {
			wrong = append(wrong, fmt.Sprintf("case %s: %s %s\n%s\ngot  %s\nwant %s", id, m.Question[0].Name, c.Query.Type, c.Zone, got, want))
		}
	}
	return wrong
}
