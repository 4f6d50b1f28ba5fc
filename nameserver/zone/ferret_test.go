package zone

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

	"github.com/miekg/dns"
)

// ferretCase is one zone of the Ferret data set with the question that was
// asked about it and what servers answered.
type ferretCase struct {
	zone  string
	Query struct{ Name, Type string }
	Said  []struct {
		Servers  string `json:"Server/s"`
		Response []string
	} `json:"Expected Response"`
}

// ferret reads the data set, by the number of the case. Every absolute name
// of case N ends in tN, so that one server can have all zones.
func ferret(t testing.TB) map[string]*ferretCase {
	t.Helper()
	dir := os.Getenv("SHUULTUUR_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	f, err := os.Open(filepath.Join(dir, "ferret", "ferret.tar.gz"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the Ferret data set is not there: SHUULTUUR_DATA names no folder with ferret/ferret.tar.gz")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]*ferretCase{}
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
			cases[id] = &ferretCase{}
		}
		if ext == "txt" {
			cases[id].zone = ferretSuffix(string(text), id)
			continue
		}
		zone := cases[id].zone
		var all []ferretCase
		if err := json.Unmarshal(text, &all); err != nil || len(all) != 1 {
			t.Fatalf("%s: %d cases, %v", h.Name, len(all), err)
		}
		all[0].zone = zone
		cases[id] = &all[0]
	}
	for id, c := range cases {
		if c.zone == "" || len(c.Said) == 0 {
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

// ferretAnswer is what is compared: rcode, AA and the set of answers.
func ferretAnswer(rcode string, aa bool, answers []string) string {
	answers = slices.Clone(answers)
	for i, a := range answers {
		answers[i] = strings.ToLower(strings.Join(strings.Fields(a), " "))
	}
	slices.Sort(answers)
	return fmt.Sprintf("%s aa=%v %s", rcode, aa, strings.Join(slices.Compact(answers), " | "))
}

// want is what the majority of NSD, Knot and PowerDNS answered.
func (c *ferretCase) want(t testing.TB, id string) string {
	votes := map[string]int{}
	best := ""
	for _, said := range c.Said {
		n := 0
		for _, s := range []string{"nsd", "knot", "powerdns"} {
			if strings.Contains(said.Servers, s) {
				n++
			}
		}
		if n == 0 || len(said.Response) == 0 {
			continue
		}
		rcode, aa, in := "", false, false
		var answers []string
		for _, line := range said.Response {
			switch {
			case strings.HasPrefix(line, "rcode "):
				rcode = strings.TrimPrefix(line, "rcode ")
			case strings.HasPrefix(line, "flags"):
				aa = slices.Contains(strings.Fields(line), "AA")
			case strings.HasPrefix(line, ";"):
				in = line == ";ANSWER"
			case in:
				rr, err := dns.NewRR(ferretSuffix(line, id))
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

// judge asks every question of the data set and returns those that were
// answered otherwise, each with both answers.
func judge(t testing.TB, cases map[string]*ferretCase, ask func(*dns.Msg) *dns.Msg) []string {
	var wrong []string
	for id, c := range cases {
		m := question(ferretSuffix(c.Query.Name, id), dns.StringToType[c.Query.Type])
		got := "declined"
		if r := ask(m); r != nil {
			var answers []string
			for _, rr := range r.Answer {
				answers = append(answers, rr.String())
			}
			got = ferretAnswer(dns.RcodeToString[r.Rcode], r.Authoritative, answers)
		}
		if want := c.want(t, id); got != want {
			wrong = append(wrong, fmt.Sprintf("case %s: %s %s\n%s\ngot  %s\nwant %s", id, m.Question[0].Name, c.Query.Type, c.zone, got, want))
		}
	}
	return wrong
}

func TestFerretCasesAreAnsweredAsByTheMajority(t *testing.T) {
	cases := ferret(t)
	if len(cases) < 6000 {
		t.Fatalf("only %d cases", len(cases))
	}
	var zones []*Zone
	for id, c := range cases {
		z, err := Read(strings.NewReader(c.zone), "", id)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.zone)
		}
		zones = append(zones, z)
	}
	z := NewResponder()
	if err := z.Replace(zones...); err != nil {
		t.Fatal(err)
	}
	wrong := judge(t, cases, func(m *dns.Msg) *dns.Msg { return ask(t, z, m, 65535) })
	for _, w := range wrong[:min(len(wrong), 10)] {
		t.Error(w)
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d cases", len(wrong), len(cases))
	}
}
