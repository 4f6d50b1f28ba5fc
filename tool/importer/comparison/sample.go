package comparison

import (
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/dns"
	"shuultuur/list"
	"shuultuur/tool/importer"
	"shuultuur/whatif"
)

// Nobody is the client of entries without one: an address that no settings name (RFC 5737).
var Nobody = netip.MustParseAddr("192.0.2.77")

// Bounds on what a sample is drawn from.
const (
	maxText    = 64 << 20 // bytes of configuration that are read
	maxFiles   = 1000
	maxClients = 8
	maxUsers   = 4
	fromEach   = 400 // targets of lists, of the configuration and of the settings
)

// A sample is what both rule sets are asked about. It is the same for the same input.
type sample struct {
	names   bool     // the program decides about names alone
	targets []string // host or host/path
	clients []netip.Addr
	users   []string
}

// draw makes the sample of an import of program at path into the folder to.
func draw(program, path, to string) (*sample, error) {
	p, _ := importer.ProgramOf(program)
	s := &sample{names: p.Names}
	lists := reservoir{random: rand.New(rand.NewPCG(1, questions))}
	files, err := filepath.Glob(filepath.Join(to, "data", "lists", "*.list"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		l, err := list.Open(file)
		if err != nil {
			return nil, err
		}
		err = l.Entries(func(e list.Entry) bool { lists.add(e.Key); return true })
		_ = l.Close()
		if err != nil {
			return nil, err
		}
	}
	settings := filepath.Join(to, importer.SettingsFile)
	for _, from := range []string{settings, path} {
		words := reservoir{random: rand.New(rand.NewPCG(2, questions))}
		if err := readTexts(from, func(text []byte) { s.read(text, &words) }); err != nil {
			return nil, err
		}
		if from == path { // the names of the settings are those of the configuration, or of keys
			s.targets = append(s.targets, words.kept...)
		}
	}
	s.targets = append(s.targets, lists.kept...)
	slices.Sort(s.targets)
	s.targets = append(slices.Compact(s.targets), "other.example", "other.example/a")
	s.clients = append(s.clients, Nobody)
	s.users = append([]string{""}, usersOf(settings)...)
	return s, nil
}

// A reservoir keeps fromEach of the strings that it is given, each with the same probability.
type reservoir struct {
	random *rand.Rand
	kept   []string
	seen   int
}

func (r *reservoir) add(s string) {
	if r.seen++; len(r.kept) < fromEach {
		r.kept = append(r.kept, s)
	} else if i := r.random.IntN(r.seen); i < fromEach {
		r.kept[i] = s
	}
}

var (
	targetIn = regexp.MustCompile(`(?i)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.[a-z][a-z0-9-]*[a-z0-9](?:/[a-z0-9_.~/%-]*)?`)
	clientIn = regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2}\b)?`)
)

// read draws the names, URLs and clients of a text.
func (s *sample) read(text []byte, to *reservoir) {
	for _, t := range targetIn.FindAll(text, -1) {
		if len(t) <= 1024 {
			to.add(strings.ToLower(string(t)))
		}
	}
	for _, c := range clientIn.FindAll(text, -1) {
		if a := clientOf(string(c)); a.IsValid() && len(s.clients) < maxClients && !slices.Contains(s.clients, a) {
			s.clients = append(s.clients, a)
		}
	}
}

// clientOf returns an address of a network of people, or an invalid one.
func clientOf(text string) netip.Addr {
	n, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.IsPrivate() {
			return netip.Addr{}
		}
		return a
	}
	a := n.Masked().Addr()
	for range 5 { // neither the network's own address nor, as a rule, its router
		if next := a.Next(); n.Contains(next) {
			a = next
		}
	}
	if !a.IsPrivate() {
		return netip.Addr{}
	}
	return a
}

// readTexts calls take with a file, or the files of a folder.
func readTexts(path string, take func(text []byte)) error {
	left, files := int64(maxText), 0
	return filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be read is in the report of the import
		}
		if files++; files > maxFiles || left <= 0 || !exists(file) {
			return nil
		}
		f, err := os.Open(file)
		if err != nil {
			return nil
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, min(left, 8<<20)))
		left -= int64(len(text))
		take(text)
		return err
	})
}

// usersOf returns some people of the groups in settings.
func usersOf(settings string) (all []string) {
	data, err := os.ReadFile(settings)
	if err != nil {
		return nil
	}
	var s struct {
		Identity struct {
			Groups map[string][]string `yaml:"groups"`
		} `yaml:"identity"`
	}
	if yaml.Unmarshal(data, &s) != nil {
		return nil
	}
	for _, members := range s.Identity.Groups {
		for _, m := range members {
			if _, err := netip.ParsePrefix(m); err == nil {
				continue
			}
			if _, err := netip.ParseAddr(m); err != nil && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.Sort(all)
	return all[:min(len(all), maxUsers)]
}

// near are names that rules about a name may mean as well, or must not.
var near = []func(host string) string{
	func(host string) string { return host },
	func(host string) string { return "www." + host },
	func(host string) string { return "x" + host },
	func(host string) string { return "a.b." + host },
	func(host string) string {
		if _, parent, ok := strings.Cut(host, "."); ok && strings.Contains(parent, ".") {
			return parent
		}
		return host
	},
}

// entries yields the questions: each target by a client, then names near to it by others.
func (s *sample) entries() iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		now := time.Now()
		for i := range questions {
			round := i / len(s.targets)
			host, path, hasPath := strings.Cut(s.targets[i%len(s.targets)], "/")
			host = near[round%len(near)](host)
			client := s.clients[(i+round)%len(s.clients)]
			user := s.users[(i/len(s.clients)+round)%len(s.users)]
			var e whatif.Entry
			var err error
			switch {
			case s.names:
				e, err = whatif.Query(host, [...]uint16{dns.TypeA, dns.TypeAAAA}[round%2])
			case round%3 == 2 && !hasPath:
				e, err = whatif.Request(whatif.Tunnel, host+":443")
			default:
				e, err = whatif.Request("GET", "http://"+host+"/"+path)
			}
			if err != nil {
				continue // what looks like a name is none
			}
			e.Start, e.Client, e.User = now, client, user
			if !yield(e, nil) {
				return
			}
		}
	}
}
