package shuultuur

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	slashpath "path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shuultuur/setting"
)

// floors is the floor table of ARCHITECTURE.md. A package may import folders on
// lower floors and folders inside its own, and no other package of the module.
var floors = map[string]int{
	"cmd/shuultuur": 9,
	"test":          9,
	"bench":         9,
	"dist":          9,
	"gateway":       8,
	"engine":        7,
	"configuration": 6,
	"fleet":         5,
	"admin":         5,
	"replay":        5,
	"doctor":        5,
	"profile":       5,
	"importer":      6,
	"icap":          5,
	"helper":        5,
	"portal":        5,
	"nameserver":    5,
	"load":          4,
	"proxy":         4,
	"cache":         4,
	"resolver":      4,
	"zone":          4,
	"check":         4,
	"policy":        4,
	"identity":      4,
	"event":         4,
	"vote":          4,
	"ingest":        3,
	"intercept":     3,
	"list":          3,
	"state":         3,
	"filter":        2,
	"content":       1,
	"message":       1,
	"dns":           1,
	"redis":         1,
	"postgres":      1,
	"atomicfile":    0,
	"setting":       0,
	"datadir":       1,
	"arrange":       0,
	"handover":      0,
	"metric":        1,
	"platform":      0,
	"queue":         0,
	"release":       0,
	"text":          0,
}

// apart has the rooms whose folders may not import each other, except for the named folder.
var apart = map[string]string{"check": "check", "event": "event/record"}

// modules has the third-party modules and the folders that may use them. The longest row that
// an import begins with counts. Tests and benchmarks may use them anywhere, as independent
// readers.
var modules = map[string][]string{
	"github.com/DataDog/datadog-agent/pkg/template": {"admin", "cache", "importer", "load", "portal", "proxy", "vote"},
	"github.com/HdrHistogram/hdrhistogram-go":       {"load", "profile"},
	"github.com/andybalholm/brotli":                 {"content", "policy", "replay"},
	"github.com/blevesearch/snowballstem":           {"content"},
	"github.com/cespare/xxhash/v2":                  {"cmd/shuultuur"},
	"github.com/coreos/go-oidc/v3/oidc":             {"identity"},
	"github.com/dlclark/regexp2/v2":                 {"check", "list"},
	"github.com/gaissmai/bart":                      {"identity", "nameserver", "policy"},
	"github.com/go-ldap/ldap/v3":                    {"identity"},
	"github.com/google/go-cmp/cmp":                  {"event"}, // its conformance suite
	"github.com/google/pprof/profile":               {"admin", "profile"},
	"github.com/jackc/pgx/v5":                       {}, // its types are 3 MB
	"github.com/jackc/pgx/v5/pgconn":                {"postgres"},
	"github.com/jcmturner/gokrb5/v8":                {"identity"},
	"github.com/klauspost/compress":                 {"content", "list", "proxy", "replay", "text"},
	"github.com/miekg/dns":                          {"zone", "resolver"},
	"github.com/nats-io/nats.go":                    {"vote"},
	"github.com/oschwald/maxminddb-golang/v2":       {"zone"},
	"github.com/prometheus/client_golang":           {}, // shuultuur/metric writes the same text without protobuf: 1.4 MB
	"github.com/quic-go/quic-go":                    {"nameserver", "resolver"},
	"github.com/yuin/gopher-lua":                    {"check"},
	"github.com/zeebo/xxh3":                         {"cache", "content", "intercept", "list", "load", "queue", "replay", "resolver", "vote", "zone"},
	"go.yaml.in/yaml/v4":                            {"check", "importer", "setting", "zone"},
	"golang.org/x/crypto":                           {"admin", "cmd/shuultuur", "identity", "intercept", "list"},
	"golang.org/x/exp/trace":                        {"profile"},
	"golang.org/x/image":                            {"content"},
	"golang.org/x/image/font/gofont":                {"admin"}, // reports as PDF
	"golang.org/x/net":                              {"cache", "check", "dns", "list", "load", "nameserver", "proxy", "replay", "vote", "zone"},
	"golang.org/x/oauth2":                           {"identity"},
	"golang.org/x/sys":                              {"check", "content", "cmd/shuultuur", "doctor", "event", "handover", "ingest", "load", "nameserver", "platform", "proxy", "resolver"},
	"golang.org/x/term":                             {"cmd/shuultuur"},
	"golang.org/x/text":                             {"check", "content", "list", "text"},
	"layeh.com/radius":                              {"identity"},
	"modernc.org/libc":                              {"event"},
	"modernc.org/sqlite":                            {"event", "importer", "vote"},
	"rsc.io/qr":                                     {"admin"},
	"software.sslmate.com/src/go-pkcs12":            {"intercept"},
	// A template that can call methods keeps every method of the program in the binary: 6 MB.
	// The one in github.com/DataDog/datadog-agent/pkg/template calls none.
	"html/template": {},
	"text/template": {},
}

// module is the common prefix of the paths of our packages.
var module = strings.TrimSuffix(reflect.TypeFor[setting.Row]().PkgPath(), "setting")

// allowed returns the longest row of modules that an import begins with. The standard library
// needs none.
func allowed(path string) (only []string, listed bool) {
	for row := path; row != "."; row = slashpath.Dir(row) {
		if only, ok := modules[row]; ok {
			return only, true
		}
	}
	first, _, _ := strings.Cut(path, "/")
	return nil, strings.Contains(first, ".")
}

// room returns the folder of the floor table that contains dir, or "".
func room(dir string) string {
	for dir != "." && dir != "" {
		if _, ok := floors[dir]; ok {
			return dir
		}
		dir = filepath.ToSlash(filepath.Dir(dir))
	}
	return ""
}

// within returns the folder of a room that contains dir.
func within(dir, room string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(dir, room+"/"), "/")
	return part
}

// inside reports whether a folder is another one or inside it.
func inside(dir, in string) bool { return dir == in || strings.HasPrefix(dir, in+"/") }

func TestImportsPointDown(t *testing.T) {
	files := 0
	documented := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Dir(path) == "." {
			return nil
		}
		files++
		dir := filepath.ToSlash(filepath.Dir(path))
		mine := room(dir)
		if mine == "" {
			t.Errorf("%s: folder %s has no floor; add it to the table here and in ARCHITECTURE.md", path, dir)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Doc != nil {
			documented[dir] = true
		} else if _, seen := documented[dir]; !seen {
			documented[dir] = false
		}
		for _, im := range f.Imports {
			to, _ := strconv.Unquote(im.Path.Value)
			if only, ok := allowed(to); ok && mine != "test" && mine != "bench" && !strings.HasSuffix(path, "_test.go") && !slices.Contains(only, mine) {
				t.Errorf("%s imports %s, which only %s may use; the table of modules says why", path, to, cmp.Or(strings.Join(only, " and "), "tests"))
			}
			to, ours := strings.CutPrefix(to, module)
			if !ours || inside(to, dir) || inside(dir, to) {
				continue
			}
			theirs := room(to)
			if strings.HasSuffix(path, "_test.go") && theirs != "" && !slices.Contains([]string{"configuration", "engine", "gateway"}, theirs) {
				continue // conformance suites lie beside what they test, helpers under test
			}
			if theirs == mine && (apart[mine] == "" || apart[mine] == dir || within(to, mine) == within(dir, mine)) {
				continue // parts of one room
			}
			if theirs == "" || floors[theirs] >= floors[mine] && mine != "cmd/shuultuur" && mine != "test" && mine != "bench" {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports point down", path, floors[mine], to, floors[theirs])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("the walk found only %d files", files)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}
