package resolver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/check/category"
	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/resolver"
)

// A section of the record: lists of rules, questions, and the questions for which our answer
// differs.
type section struct {
	name      string
	lists     []string
	questions []question
	ours      map[string]string // by question: our answer, and why
}

type question struct {
	text      string // as it is written
	host      string
	qtype     uint16
	client    filter.Client
	answer    string // of AdGuard's engine
	answering string // the rule that it names
}

// readRecord reads testdata/adguard.txt, which explains its format.
func readRecord(t *testing.T, path string) (all []section) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s *section
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		if name, ok := strings.CutPrefix(line, "= "); ok {
			all = append(all, section{name: name, lists: []string{""}, ours: map[string]string{}})
			s = &all[len(all)-1]
			continue
		}
		switch {
		case s == nil, line == "":
		case line == "--":
			s.lists = append(s.lists, "")
		case strings.HasPrefix(line, "? "):
			text, answer, ok := strings.Cut(line[2:], ": ")
			if !ok {
				t.Fatalf("%s:%d: question without an answer: %s", path, n, line)
			}
			q := question{text: text, client: filter.Client{Addr: netip.MustParseAddr("203.0.113.250")}}
			ask, who, _ := strings.Cut(strings.TrimSuffix(text, ")"), " (")
			host, typ, _ := strings.Cut(ask, " ")
			q.host = host
			if q.qtype, err = dns.Type(typ); err != nil {
				t.Fatalf("%s:%d: %v", path, n, err)
			}
			for one := range strings.SplitSeq(who, ", ") {
				switch key, value, _ := strings.Cut(one, "="); key {
				case "ip":
					q.client.Addr = netip.MustParseAddr(value)
				case "name":
					q.client.User = value
				case "tag":
					q.client.Groups = append(q.client.Groups, value)
				}
			}
			q.answer = answer
			if word, rule, _ := strings.Cut(answer, " "); word == "block" || word == "allow" {
				q.answer, q.answering = word, rule
			}
			s.questions = append(s.questions, q)
		case strings.HasPrefix(line, "! ") && len(s.questions) > 0:
			text, ours, _ := strings.Cut(line[2:], ": ")
			answer, why, _ := strings.Cut(ours, ", because ")
			if why == "" {
				t.Fatalf("%s:%d: difference without a reason: %s", path, n, line)
			}
			s.ours[text] = answer
		default:
			s.lists[len(s.lists)-1] += line + "\n"
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// rulesResolver answers by the rules of lists, and forwards other queries to an upstream with
// these records, by name.
func rulesResolver(t *testing.T, lists []string, records map[string][]string) *resolver.Resolver {
	dir := t.TempDir()
	files, names := map[string]*list.File{}, []string{}
	for i, text := range lists {
		name := fmt.Sprintf("list%d", i+1)
		source, compiled := filepath.Join(dir, name+".txt"), filepath.Join(dir, name+".list")
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := list.Compile(context.Background(), name, list.Config{Format: list.Adblock, Category: "dns", Path: setting.Source(source)}, compiled); err != nil {
			t.Fatal(err)
		}
		f, err := list.Open(compiled)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files[name], names = f, append(names, name)
	}
	check, err := category.New(category.Config{Lists: names}, files)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(policy.Config{{Name: "everyone", Rules: []policy.Rule{{Name: "dns", Action: "block", Category: []string{"dns"}}}}}, []filter.Check{check}, policy.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := resolver.NewStore(resolver.CacheConfig{Size: 4 << 20}, "", func(_ context.Context, name []byte, qtype, _ uint16, _, _ bool) ([]byte, uint16, error) {
		m := new(miekg.Msg)
		m.SetQuestion(dns.Text(name), qtype)
		m.Response = true
		for _, text := range records[dns.Text(name)] {
			rr, err := miekg.NewRR(text)
			if err != nil {
				return nil, 0, err
			}
			m.Answer = append(m.Answer, rr)
		}
		out, err := m.Pack()
		return out, 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	r, err := resolver.New(resolver.Config{}, resolver.Parts{Decider: engine, Identify: func(a netip.Addr, _ string) filter.Client { return filter.Client{Addr: a} }, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A reply is a reply with its transaction, as in the server.
type reply struct {
	dns.Reply
	T filter.Transaction
}

func (a *reply) Start(q *dns.Query, buf []byte, limit int) {
	a.Reply.Start(q, buf, limit)
	a.T.Reset()
}

// answerTo returns r's answer to a question in the words of the record, and the evidence of the
// decision.
func answerTo(t *testing.T, r *resolver.Resolver, x question) (answer, evidence string) {
	m := new(miekg.Msg)
	m.SetQuestion(miekg.Fqdn(x.host), x.qtype)
	m.SetEdns0(1232, false)
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	q := &dns.Query{}
	if st := q.Parse(packed); st != dns.OK {
		t.Fatalf("%s: parsing the query: status %d", x.text, st)
	}
	q.Client, q.At, q.Recursion = netip.AddrPortFrom(x.client.Addr, 5353), time.Now(), true
	a := &reply{}
	a.Start(q, nil, 1200)
	if out := r.Answer(q, &a.Reply, &a.T); out == dns.Later {
		a.Start(q, a.Buf, 1200)
		if out = r.Wait(context.Background(), q, &a.Reply, &a.T); out != dns.Answered {
			t.Fatalf("%s: Wait returned outcome %d", x.text, out)
		}
	}
	tr := r.Record(q, &a.Reply, &a.T)
	if tr.Verdict.Action == filter.Pass {
		for _, f := range tr.Findings {
			if f.Check == category.Exception {
				return "pass", f.Evidence
			}
		}
		return "pass", ""
	}
	f := tr.Verdict.Reason.Finding
	if f.Modifier == "" {
		return "block", f.Evidence
	}
	var reply miekg.Msg
	if err := reply.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
		t.Fatal(err)
	}
	if reply.Rcode != 0 {
		return miekg.RcodeToString[reply.Rcode], f.Evidence
	}
	var values []string
	for _, rr := range reply.Answer {
		if c, ok := rr.(*miekg.CNAME); ok && x.qtype != miekg.TypeCNAME {
			return "alias " + strings.TrimSuffix(c.Target, "."), f.Evidence
		}
		if x, ok := rr.(*miekg.TXT); ok {
			values = append(values, strings.Join(x.Txt, "|"))
			continue
		}
		// The record omits the last dot of names except in PTR, and writes words without
		// quotes.
		v := strings.ReplaceAll(strings.TrimPrefix(rr.String(), rr.Header().String()), `"`, "")
		if rr.Header().Rrtype != miekg.TypePTR {
			words := strings.Fields(v)
			for i := range words {
				if len(words[i]) > 1 {
					words[i] = strings.TrimSuffix(words[i], ".")
				}
			}
			v = strings.Join(words, " ")
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return "nothing", f.Evidence
	}
	slices.Sort(values)
	return "answer " + strings.Join(values, " | "), f.Evidence
}

func TestAdblockRulesAnswerAsAdGuardsEngine(t *testing.T) {
	n, otherwise := 0, 0
	for _, s := range readRecord(t, filepath.Join("testdata", "adguard.txt")) {
		r := rulesResolver(t, s.lists, nil)
		for _, q := range s.questions {
			n++
			got, evidence := answerTo(t, r.As(q.client), q)
			want := q.answer
			if want == "allow" {
				want = "pass"
			}
			ours, differs := s.ours[q.text]
			delete(s.ours, q.text)
			switch {
			case differs && got == want:
				t.Errorf("%s: %s: got %s like AdGuard's engine: remove the line about the difference", s.name, q.text, got)
			case differs && got != ours:
				t.Errorf("%s: %s: %s, want %s, where AdGuard's engine says %s", s.name, q.text, got, ours, want)
			case differs:
				otherwise++
			case got != want:
				t.Errorf("%s: %s: got %s, want %s", s.name, q.text, got, want)
			case q.answer == "allow" && evidence != "" && !strings.Contains(evidence, lineOfRule(s.lists, q.answering)):
				t.Errorf("%s: %s: lifted by %s, want %s (%s)", s.name, q.text, evidence, q.answering, lineOfRule(s.lists, q.answering))
			case q.answering != "" && want == "block" && !strings.Contains(evidence, lineOfRule(s.lists, q.answering)):
				t.Errorf("%s: %s: blocked by %s, want %s (%s)", s.name, q.text, evidence, q.answering, lineOfRule(s.lists, q.answering))
			}
		}
		for text := range s.ours {
			t.Errorf("%s: a difference is noted for the question %s, which the record does not have", s.name, text)
		}
	}
	if n < 600 {
		t.Errorf("the record has only %d questions, want at least 600", n)
	}
	t.Logf("%d answers, %d of them otherwise for a reason", n, otherwise)
}

// As in AdGuard Home, an exception for a name also applies to the names that
// its answer leads to, even if nothing refuses the name itself.
func TestAnExceptionForANameCoversItsAliasesAndAddresses(t *testing.T) {
	lists := []string{"||tracker.net^\n||ads*.net^\n", "@@||shop.example^\n@@||*cart.example^$dnstype=A\n"}
	r := rulesResolver(t, lists, map[string][]string{
		"www.shop.example.":  {"www.shop.example. 60 IN CNAME x.tracker.net.", "x.tracker.net. 60 IN A 198.51.100.1"},
		"mycart.example.":    {"mycart.example. 60 IN CNAME ads1.net.", "ads1.net. 60 IN A 198.51.100.1"},
		"www.other.example.": {"www.other.example. 60 IN CNAME x.tracker.net.", "x.tracker.net. 60 IN A 198.51.100.1"},
	})
	for name, want := range map[string]string{
		"www.shop.example":  "pass",
		"mycart.example":    "pass",
		"www.other.example": "block",
		"x.tracker.net":     "block",
	} {
		got, evidence := answerTo(t, r, question{text: name, host: name, qtype: miekg.TypeA, client: filter.Client{Addr: netip.MustParseAddr("192.0.2.1")}})
		if got != want {
			t.Errorf("%s: got %s (%s), want %s", name, got, evidence, want)
		}
		if want == "block" && !strings.Contains(evidence, "list1.txt:1") {
			t.Errorf("%s: got evidence %q, want list1.txt:1", name, evidence)
		}
	}
}

// lineOfRule returns the place of a rule in the form of evidence:
// "list1.txt:2".
func lineOfRule(lists []string, rule string) string {
	for i, text := range lists {
		for n, line := range strings.Split(text, "\n") {
			if strings.TrimSpace(line) == rule {
				return fmt.Sprintf("list%d.txt:%d", i+1, n+1)
			}
		}
	}
	return "a list"
}
